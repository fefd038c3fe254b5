"""Decoding, conversion and encoding of speech, and the character bundles; knows no cloud."""
