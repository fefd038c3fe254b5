"""Takes voices in: recordings and texts."""
