"""Reads foreign files in a process of its own, and writes the bundle's."""
