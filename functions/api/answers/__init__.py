"""What the api answers: models, problems, the wait for a result."""
