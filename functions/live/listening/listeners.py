"""The interfaces of work on a recording while it comes; `live` does without it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.voices.voice import Voice
    from speech.engines.interface.ahead import Ahead


class Hearing(Protocol):
    """Converts one recording while it comes, for the visitor's ear only."""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the recording; returns at once and raises nothing."""
        ...

    async def aclose(self) -> None:
        """Stop; nothing is sent any more."""
        ...


class OpenHearing(Protocol):
    """Opens the hearing of one voice."""

    def __call__(self, voice: Voice, send: Callable[[str | bytes], bool]) -> Hearing | None:
        """Return it, or None if the character or the instance cannot do it now.

        Args:
            voice: whose recording comes.
            send: sends a message to the visitor, unless others still wait to be sent; returns
                whether it is sent.
        """
        ...


class ConvertingAhead(Protocol):
    """Converts what is complete of one recording while the rest of it comes.

    Attributes:
        made: keeps what was converted.
    """

    made: Ahead

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the recording; returns at once and raises nothing."""
        ...

    async def aclose(self) -> None:
        """Begin nothing more; what is being converted goes on."""
        ...


class ConvertAhead(Protocol):
    """Begins to convert a recording while it comes."""

    def __call__(self, voice: Voice) -> ConvertingAhead:
        """Begin with a voice, if its character is slow enough to gain from it."""
        ...
