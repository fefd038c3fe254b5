"""Decodes recordings of strangers, in a sandbox."""
