"""A voice: its states, its document, its messages and objects."""
