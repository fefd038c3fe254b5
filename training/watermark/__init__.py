"""Teaches the detector of the watermark what speech does by itself, and what noise leaves."""
