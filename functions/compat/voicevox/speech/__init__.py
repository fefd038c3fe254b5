"""Voices and their synthesis, bounded."""
