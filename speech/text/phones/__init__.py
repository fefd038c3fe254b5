"""From words to phones: accents, tones, and the words of users."""
