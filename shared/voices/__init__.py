"""Voices: states, documents, messages, objects, tickets. Nothing here imports a client library."""
