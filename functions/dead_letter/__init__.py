"""Ends the voices of messages that could not be handled."""
