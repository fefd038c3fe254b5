"""Kept for clients: presets and words."""
