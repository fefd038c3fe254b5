"""Measuring how long the stages of a conversion take."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class StageClock(Protocol):
    """Measures how long the stages of a conversion take."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure a stage: the time inside the context."""


class NoClock:
    """Measures nothing."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Do nothing."""
        del name
        return nullcontext()
