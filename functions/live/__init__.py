"""The service `live`: converts a recording while it comes over a WebSocket."""
