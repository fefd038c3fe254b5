"""Japanese text on its way to speech: what is said, in which sounds, and how high."""
