"""Pitch: tracked, and moved into the range of a character."""
