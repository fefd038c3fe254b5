"""The local cloud's Cloud Storage: README.md lists what it implements."""
