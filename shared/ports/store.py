"""The port to the voices' documents, and `change`, through which every change of a voice goes.

Two adapters implement it: Firestore (`shared.google.firestore.voices`) and the local cloud's
memory.
Both return the store's time with every read, so that leases never depend on a worker's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from shared.errors import PassingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from shared.voices.voice import Status, Voice

COMPETITION_LIMIT: Final = 10
"""How often a change is tried while other writers change the same document."""


class UnknownVoiceError(LookupError):
    """There is no document of this voice_id: it was never created, was deleted, or has expired."""

    def __init__(self, voice_id: str) -> None:
        super().__init__(f"there is no voice {voice_id}; it was never created, or it was deleted")
        self.voice_id = voice_id


class UnreadableVoiceError(ValueError):
    """A document exists, but this version of the code cannot read it as a voice."""

    def __init__(self, voice_id: str, reason: Exception) -> None:
        super().__init__(
            f"the document of voice {voice_id} cannot be read ({reason!r}); "
            "another version of the code has written it, or somebody has edited it"
        )
        self.voice_id = voice_id


class VoiceExistsError(Exception):
    """Another document of this voice_id exists already."""


class ConflictError(PassingError):
    """Another writer has changed the document since it was read."""


class StoreUnavailableError(PassingError):
    """The store did not answer."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A voice as it was read.

    Attributes:
        voice: the voice.
        revision: opaque; identifies this state of the document for `replace`.
        read_at: the store's time when it was read or written.
    """

    voice: Voice
    revision: object
    read_at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """One page of search results.

    Attributes:
        snapshots: the voices.
        unreadable: the errors of documents that could not be read as voices.
        end: opaque; where the next page begins, None if this page is the last.
    """

    snapshots: Sequence[Snapshot]
    unreadable: Sequence[UnreadableVoiceError] = ()
    end: object = None


class VoiceStore(Protocol):
    """Where the voices' documents are kept.

    Every method raises `StoreUnavailableError` when the store does not answer.
    """

    async def create(self, voice: Voice) -> None:
        """Write a new document.

        If the very same one is there, only the answer to an earlier try was lost: that is a
        success.

        Raises:
            VoiceExistsError: another document of this voice_id exists.
        """
        ...

    async def read(self, voice_id: str) -> Snapshot:
        """Read a document.

        Raises:
            UnknownVoiceError: it does not exist.
            UnreadableVoiceError: it cannot be read as a voice.
        """
        ...

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        """Write `voice` if the document is still the one of `snapshot`: compare-and-set.

        Raises:
            ConflictError: the document was changed or deleted.
        """
        ...

    async def delete(self, voice_id: str) -> None:
        """Delete a document; it is no error if it does not exist."""
        ...

    async def unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> Found:
        """Read the voices of a status that last changed before `since`, oldest first.

        Args:
            status: which voices; not a final one, because stores need not find those.
            since: a voice that changed at this time or later is not returned.
            limit: the most documents to read.
            after: the `end` of the page before this one; None for the first page.

        Returns:
            The page; `read_at` of its snapshots is not earlier than the query.
        """
        ...

    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        """Follow a document: its current state, then every later one; None while it is missing.

        States that follow each other quickly may be skipped, but never the last one. The iterator
        raises `StoreUnavailableError` when the connection is lost for good, and
        `UnreadableVoiceError` when the document cannot be read as a voice.
        """
        ...

    async def aclose(self) -> None:
        """Close the store's connections."""
        ...


async def change(
    store: VoiceStore,
    voice_id: str,
    transition: Callable[[Voice, datetime], Voice],
    known: Snapshot | None = None,
) -> Snapshot:
    """Apply a transition of a voice to a stored one; retry when another writer was first.

    If the stored voice equals the one that was to be written, only the reply to our own write was
    lost: that is a success. So two writers of the very same state both succeed. A writer that must
    be the only one writes something unique; a worker's lease has a random length for this reason.

    Args:
        store: where the voice is kept.
        voice_id: which voice.
        transition: takes the stored voice and the store's time, and returns the next state.
        known: the voice as it was just read; saves a read unless the voice has changed since.

    Raises:
        UnknownVoiceError: there is no such voice.
        ConflictError: other writers were first `COMPETITION_LIMIT` times in a row.
        Exception: the transition refused; any exception of it is passed on.
    """
    wanted: Voice | None = None
    for _ in range(COMPETITION_LIMIT):
        snapshot, known = known or await store.read(voice_id), None
        if snapshot.voice == wanted:
            return snapshot
        wanted = transition(snapshot.voice, snapshot.read_at)
        try:
            return await store.replace(snapshot, wanted)
        except ConflictError:
            continue
    raise ConflictError(
        f"voice {voice_id} was changed by others {COMPETITION_LIMIT} times in a row"
    )
