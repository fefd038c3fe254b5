"""Judgements of characters: words, naturalness, likeness, measures."""
