"""The base of all errors that pass: trying the same again later can help.

Every error of this kind is derived from `PassingError`, wherever it is defined. So the places that
answer 503, hand a message back or leave a voice for the next sweep catch this one class.
"""


class PassingError(Exception):
    """Something failed for a reason that passes; trying again later can help."""


class PublishError(PassingError):
    """A topic did not accept a message."""
