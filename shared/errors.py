"""Errors that pass by themselves: trying again later can help."""


class PassingError(Exception):
    """A message could not be handled for reasons that pass; delivering it again can help."""


class PublishError(PassingError):
    """A message was not accepted by Pub/Sub; trying again later can help."""
