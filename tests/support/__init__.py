"""Shared by tests of several parts: builders, hand-written fakes, contracts of the ports."""
