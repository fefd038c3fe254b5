"""Text in pieces over one WebSocket: the protocol `voice-avatar.speech.v1`."""
