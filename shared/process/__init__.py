"""Untrusted texts in messages and logs."""
