"""The content encoder that characters share: Whisper base's encoder and a projection."""
