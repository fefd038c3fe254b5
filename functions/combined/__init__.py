"""`live` and the APIs of other clients in one process."""
