"""What all dialects share: voices, formats, and speech that is bounded whoever asks for it."""
