"""Signal processing of speech: levels, gate, loudness, pauses, pieces."""
