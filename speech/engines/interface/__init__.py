"""The interfaces of engines: speech to speech, and text to speech."""
