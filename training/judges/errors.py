"""Errors of the judges."""


class JudgeMissingError(Exception):
    """A judge cannot be used; the message says why, for the model card."""
