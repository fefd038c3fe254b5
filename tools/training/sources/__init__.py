"""Speech of Kokoro-82M: of the character Hina, of others to train with, and of two to judge by."""
