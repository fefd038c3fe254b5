"""What an engine is: speech to speech, and text to speech."""
