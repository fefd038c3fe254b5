"""The protocol Wyoming, by which Home Assistant finds voices."""
