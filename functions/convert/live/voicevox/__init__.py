"""The HTTP API that clients of VOICEVOX and AivisSpeech speak."""
