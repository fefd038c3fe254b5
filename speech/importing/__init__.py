"""Turns the files that a voice owner has into a character bundle, without trusting them."""
