"""The answers of the api: models, problems, the wait for a result."""
