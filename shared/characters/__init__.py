"""The manifest of a character, and the bucket of characters."""
