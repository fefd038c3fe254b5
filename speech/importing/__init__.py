"""Turning a file that a voice owner has into a character bundle; offline, never while serving."""
