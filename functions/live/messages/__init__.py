"""The protocol of `live`, and what comes in and goes out by it."""
