"""Where the service runs: the local cloud and Google Cloud."""
