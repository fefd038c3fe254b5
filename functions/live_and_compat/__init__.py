"""The service `live` and the dialects of `compat` in one process."""
