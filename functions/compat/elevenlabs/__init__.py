"""The API of ElevenLabs: from voice to voice in one call."""
