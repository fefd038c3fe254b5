"""The port to the voices' documents, and the one way to change a voice through it.

Two adapters implement it: Firestore (`shared.google.firestore_store`) and the local cloud's memory.
Both hand out the server's time with every read, so that leases never depend on a worker's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from shared.voice import Status, Voice

COMPETITION_LIMIT: Final = 10
"""How often a change is tried against competing writers; each try means that one of them won."""


class UnknownVoiceError(LookupError):
    """There is no document for this voice_id: it never was, was deleted, or has expired."""

    def __init__(self, voice_id: str) -> None:
        super().__init__(f"there is no voice {voice_id}; it was never created, or it was deleted")
        self.voice_id = voice_id


class UnreadableVoiceError(ValueError):
    """A document is there, but it is no voice that this version of the code can read."""

    def __init__(self, voice_id: str, reason: Exception) -> None:
        super().__init__(
            f"the document of voice {voice_id} cannot be read ({reason!r}); "
            "another version of the code has written it, or somebody's hand"
        )
        self.voice_id = voice_id


class VoiceExistsError(Exception):
    """A document of this voice_id is already there."""


class ConflictError(Exception):
    """Somebody else changed the document since it was read."""


class StoreUnavailableError(Exception):
    """The store did not answer; trying again later can help."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A voice as it was read.

    Attributes:
        voice: the voice.
        revision: opaque; names this state of the document for `replace`.
        read_at: the store's time when it was read or written.
    """

    voice: Voice
    revision: object
    read_at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        snapshots: the voices.
        unreadable: what is wrong with the documents that are no voices.
        end: opaque; where the next search goes on, None if there is nothing more.
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

        Raises:
            VoiceExistsError: there is one of this voice_id.
        """
        ...

    async def read(self, voice_id: str) -> Snapshot:
        """Read a document.

        Raises:
            UnknownVoiceError: there is none.
            UnreadableVoiceError: it is no voice.
        """
        ...

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        """Write `voice` if the document is still the one of `snapshot`: compare-and-set.

        Raises:
            ConflictError: the document changed or is gone.
        """
        ...

    async def delete(self, voice_id: str) -> None:
        """Delete a document; it is no error if there is none."""
        ...

    async def unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> Found:
        """Read the voices of a status that last changed before `since`, oldest first.

        At most `limit` documents, beginning after the `end` of an earlier search for the same. A
        snapshot's `read_at` is not earlier than the query.
        """
        ...

    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        """Follow a document: its present state, then every later one; None while there is none.

        States that follow each other quickly may be skipped, the last one never is. The iterator
        raises `StoreUnavailableError` when the connection is lost for good, and
        `UnreadableVoiceError` when the document is no voice.
        """
        ...

    async def aclose(self) -> None:
        """Close what the store holds open."""
        ...


async def change(
    store: VoiceStore,
    voice_id: str,
    transition: Callable[[Voice, datetime], Voice],
    known: Snapshot | None = None,
) -> Snapshot:
    """Apply a transition of `shared.voice` to a stored voice, again if another writer was first.

    Where the voice is found just as it was to be written, the answer to the own write was lost:
    that is no other writer. Two writers that want exactly the same thus both succeed; whoever must
    be the only one wants something that is its own, as the length of a worker's lease is.

    Args:
        store: where the voice is kept.
        voice_id: which voice.
        transition: from the voice as stored, and the store's time, to the voice as wanted.
        known: the voice as it was read just now, which spares a read unless it has changed since.

    Raises:
        UnknownVoiceError: there is no such voice.
        ConflictError: other writers were faster `COMPETITION_LIMIT` times.
        Exception: whatever the transition refuses with.
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
