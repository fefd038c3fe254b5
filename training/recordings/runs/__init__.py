"""A run of the training: what it keeps, how far it is, how it fails."""
