"""VOICEVOX's API for the characters that take text."""
