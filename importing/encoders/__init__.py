"""Encoders that several voices share: content, BERT, pitch."""
