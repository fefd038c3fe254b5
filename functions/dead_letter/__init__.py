"""Gives up on a voice, visibly."""
