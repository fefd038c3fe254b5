"""Results: audio files, statements, credentials, watermarks."""
