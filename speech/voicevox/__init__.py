"""What clients of VOICEVOX and AivisSpeech send and expect, as data: no HTTP."""
