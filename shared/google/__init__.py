"""The adapters to Google Cloud: each implements a port with a client library."""
