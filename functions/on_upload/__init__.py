"""Turns a finished upload into a conversion message."""
