"""Shared by all dialects: voices, formats, and speech that is bounded whoever asks for it."""
