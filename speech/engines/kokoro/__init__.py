"""The engine `kokoro`: text to speech with a voice of one's own, mixed of those of Kokoro-82M."""
