"""Text for characters that convert: built-in speech, converted to the character's voice."""
