"""The HTTP API: creates voices, takes uploads, waits for results."""
