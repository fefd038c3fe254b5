"""The port to traces: which step of a voice's way took place when."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Fact: TypeAlias = "str | bool | int | float"


@dataclass(slots=True)
class Step:
    """A step that is under way.

    Attributes:
        facts: what is said of it.
        error: why it failed, if it did.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    error: str | None = None


class Traces(Protocol):
    """Takes the steps of voices. Every voice has one trace, whichever deployables work on it."""

    def step(self, voice_id: str, name: str) -> AbstractContextManager[Step]:
        """Take what happens inside for a step; steps that begin inside are parts of it.

        If an error leaves it, the step has failed.
        """
        ...

    def add(
        self,
        voice_id: str,
        name: str,
        begin: float | str,
        end: float | None = None,
        *,
        facts: Mapping[str, Fact] | None = None,
        is_first: bool = False,
    ) -> None:
        """Add a step that is over.

        Args:
            voice_id: whose step.
            name: what it is called.
            begin: when it began, in seconds since 1970 or as RFC 3339 has it; a step whose begin
                cannot be read is left out.
            end: when it ended; None for now.
            facts: what is said of it.
            is_first: whether it is the voice's first step, to which all others belong.
        """
        ...


class NoTraces:
    """Takes nothing."""

    def step(self, _voice_id: str, _name: str) -> AbstractContextManager[Step]:
        """Do nothing."""
        return nullcontext(Step())

    def add(
        self,
        voice_id: str,
        name: str,
        begin: float | str,
        end: float | None = None,
        *,
        facts: Mapping[str, Fact] | None = None,
        is_first: bool = False,
    ) -> None:
        """Do nothing."""


NO_TRACES: Final = NoTraces()
"""For whoever is given no traces."""
