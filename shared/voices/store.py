"""The port to the voices' documents, and `change`, through which every change of a voice goes.

Firestore (`shared.google.voices`) and the local cloud's memory implement it. Every read returns the
store's time, so that leases never depend on a worker's clock.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from shared.voices.voice import (
    EnglishWords,
    ErrorCode,
    Failure,
    Input,
    Options,
    OutputFormat,
    PassingError,
    Result,
    Speaking,
    Status,
    Voice,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime


COMPETITION_LIMIT: Final = 10  # tries of a change while others change the same document


class UnknownVoiceError(LookupError):
    """There is no document of this voice_id: it never existed, was deleted, or expired."""

    def __init__(self, voice_id: str) -> None:
        super().__init__(f"there is no voice {voice_id}; it was never created, or it was deleted")
        self.voice_id = voice_id


class UnreadableVoiceError(ValueError):
    """This version of the code can't read a document as a voice."""

    def __init__(self, voice_id: str, reason: Exception) -> None:
        super().__init__(
            f"the document of voice {voice_id} cannot be read ({reason!r}); "
            "another version of the code has written it, or somebody has edited it"
        )
        self.voice_id = voice_id


class VoiceExistsError(Exception):
    pass


class ConflictError(PassingError):
    pass


class StoreUnavailableError(PassingError):
    pass


@dataclass(frozen=True, slots=True)
class Snapshot:
    voice: Voice
    revision: object  # opaque; identifies this state of the document for `replace`
    read_at: datetime  # the store's time when it was read or written


@dataclass(frozen=True, slots=True)
class FoundVoices:
    snapshots: Sequence[Snapshot]
    unreadable: Sequence[UnreadableVoiceError] = ()  # the errors of documents that are no voices
    end: object = None  # opaque; the place where the next page begins, None after the last page


class VoiceStore(Protocol):
    """Every method raises `StoreUnavailableError` when the store does not answer."""

    async def create(self, voice: Voice) -> None:
        """Write a new document; `VoiceExistsError` if another one of this voice_id exists.

        The very same one being there already is a success.
        """

    async def read(self, voice_id: str) -> Snapshot:
        """Read a document; may raise `UnknownVoiceError` and `UnreadableVoiceError`."""

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        """Write `voice` if the document is still the one of `snapshot`: compare-and-set.

        Raises `ConflictError` if it was changed or deleted.
        """

    async def delete(self, voice_id: str) -> None:
        """Delete a document, if it exists."""

    async def find_unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> FoundVoices:
        """Return the voices that have had a status since before `since`, oldest first.

        Args:
            status: not a final one, because stores need not find those.
            since: excluded.
            limit: the most documents to read.
            after: the `end` of the previous page.
        """

    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        """Follow a document: its current state, then later ones; None while it is missing.

        States in quick succession may be skipped, but never the last one. The iterator raises
        `StoreUnavailableError` when the connection is lost for good, and `UnreadableVoiceError`.
        """

    async def aclose(self) -> None: ...


async def change(
    store: VoiceStore,
    voice_id: str,
    transition: Callable[[Voice, datetime], Voice],
    known: Snapshot | None = None,
) -> Snapshot:
    """Apply a transition to a stored voice; retry when another writer was first.

    If the stored voice equals the one that was to be written, only the reply to our own write was
    lost: that is a success. So two writers of the very same state both succeed. A writer that must
    be the only one writes something unique; a worker's lease has a random length for this reason.

    Args:
        transition: takes the stored voice and the store's time, and returns the next state; its
            exceptions are passed on.
        known: the voice as it was just read; saves a read unless the voice has changed since.
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


class LatestState:
    """One waiting client's view of a document: newer states replace older ones."""

    def __init__(self) -> None:
        self._arrived = asyncio.Event()
        self._state: Voice | None = None
        self._error: StoreUnavailableError | UnreadableVoiceError | None = None

    def put(self, state: Voice | None) -> None:
        self._state = state
        self._arrived.set()

    def fail(self, error: StoreUnavailableError | UnreadableVoiceError) -> None:
        self._error = error
        self._arrived.set()

    async def states(self) -> AsyncGenerator[Voice | None]:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            if self._error is not None:
                raise self._error
            yield self._state


COLLECTION: Final = "voices"
SHARDS: Final = 16
"""The number of the voices' collections, and of the parts of the sweep's index.

A new collection should begin with at most 500 writes a second and grow by half every five minutes
(https://cloud.google.com/firestore/docs/best-practices). So there are several, `shards/0/voices` to
`shards/15/voices`; rules, lifetimes and indexes hold for all of one name. An index that begins with
a time takes as few writes, because all go to the same place; so it begins with the number. One
query reads up to 30 parts.
"""


def voice_shard(voice_id: str) -> int:
    return zlib.crc32(voice_id.encode()) % SHARDS


def document_path(voice_id: str) -> str:
    return f"shards/{voice_shard(voice_id)}/{COLLECTION}/{voice_id}"


def to_document(voice: Voice) -> dict[str, Any]:
    """Return the document of a voice, which is named by the voice_id.

    `sweep_shard` is there only while the voice is not final. The sweep's index begins with it, so
    final voices are not in the index: writing the result adds nothing to it.
    """
    document = asdict(voice)
    del document["voice_id"]
    document["status"] = voice.status.value
    document["options"]["output_format"] = voice.options.output_format.value
    if (speaking := voice.options.speaking) is not None:
        document["options"]["speaking"]["english_words"] = speaking.english_words.value
    document["timings"] = dict(voice.timings)
    if voice.error is not None:
        document["error"]["code"] = voice.error.code.value
    if not voice.status.is_final:
        document["sweep_shard"] = voice_shard(voice.voice_id)
    return document


def conversion_answer(voice: Voice) -> dict[str, Any]:
    """Return the answer to a client who waits for a voice that is done."""
    result = voice.result
    if result is None:
        raise ValueError(f"voice {voice.voice_id} is done without a result")
    facts = asdict(result)
    del facts["bucket"], facts["object"]
    recording = None
    if voice.input is not None and voice.input.seconds is not None:
        names = ("seconds", "damaged", "missing_seconds")
        recording = {name: getattr(voice.input, name) for name in names}
    return {
        "voice_id": voice.voice_id,
        "status": voice.status.value,
        "input": recording,
        "result": facts,
        "timings": dict(voice.timings),
    }


def from_document(voice_id: str, document: Mapping[str, Any]) -> Voice:
    """Return the voice of a document; KeyError, TypeError or ValueError if it has another form.

    Unknown fields are ignored: another version of the code may have added them.
    """
    options = dict(document["options"])
    options["output_format"] = OutputFormat(options["output_format"])
    if options.get("speaking") is not None:
        speaking = dict(options["speaking"])
        if "english_words" in speaking:
            speaking["english_words"] = EnglishWords(speaking["english_words"])
        options["speaking"] = _part(Speaking, speaking)
    error = document["error"]
    parts = {
        "voice_id": voice_id,
        "status": Status(document["status"]),
        "options": _part(Options, options),
        "input": _part(Input, document["input"]),
        "result": _part(Result, document["result"]),
        "error": error and Failure(ErrorCode(error["code"]), error["message"]),
    }
    return cast("Voice", _part(Voice, {**document, **parts}))


def _part(kind: type[Any], document: Mapping[str, Any] | None) -> Any:
    if document is None:
        return None
    names = (each.name for each in fields(kind))
    return kind(**{name: document[name] for name in names if name in document})
