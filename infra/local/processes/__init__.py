"""Starts, watches and stops processes."""
