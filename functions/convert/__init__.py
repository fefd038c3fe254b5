"""The conversion container: it converts a recording to the character's voice."""
