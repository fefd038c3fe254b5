"""AIVMX voices: Style-Bert-VITS2 in one file."""
