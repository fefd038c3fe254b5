"""Locked dependencies, and the audit of them."""
