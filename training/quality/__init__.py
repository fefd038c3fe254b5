"""Measures what the character really sounds like on speakers that it was not trained on."""
