"""The requests and answers of VOICEVOX, and what they mean here."""
