"""The ways in which the api can learn that a voice is done."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.cloud.firestore_v1 import Client

from shared.google.firestore_client import RenewableClient
from shared.google.firestore_listener import DocumentListener
from shared.google.firestore_store import FirestoreVoices
from shared.ports.latest_state import LatestState
from shared.ports.store import UnknownVoiceError
from shared.voices.documents import COLLECTION, from_document

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from shared.ports.store import Snapshot
    from shared.voices.voice import Voice

POLLING_SECONDS: Final = 1.0


class Alternative(StrEnum):
    """How the api learns that a voice is done."""

    SHARED = "shared streams"
    ON_SNAPSHOT = "on_snapshot each"
    POLLING = "polling each second"


class Watcher(Protocol):
    """Follows documents in one of the ways."""

    @property
    def stream_count(self) -> int:
        """How many `Listen` streams are open."""
        ...

    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        """Follow a document; see `shared.ports.store.VoiceStore.watch`."""
        ...


class OnSnapshot:
    """The client library's own way: a stream and its threads for each document.

    Args:
        client: the synchronous client; the asynchronous one cannot listen.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = 0

    @property
    def stream_count(self) -> int:
        """How many streams are open."""
        return self._open

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        """Follow a document."""
        latest, loop = LatestState(), asyncio.get_running_loop()

        def tell(snapshots: list[Any], *_: object) -> None:
            fields = snapshots[0].to_dict() if snapshots else None
            state = from_document(voice_id, fields) if fields else None
            loop.call_soon_threadsafe(latest.put, state)

        watch = self._client.collection(COLLECTION).document(voice_id).on_snapshot(tell)
        self._open += 1
        try:
            async with aclosing(latest.states()) as states:
                yield states
        finally:
            self._open -= 1
            # It joins threads.
            await asyncio.to_thread(watch.unsubscribe)


class Polling:
    """Reading the document again and again.

    Args:
        voices: where from.
    """

    stream_count = 0

    def __init__(self, voices: CountedVoices) -> None:
        self._voices = voices

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        """Follow a document."""
        async with aclosing(self._states(voice_id)) as states:
            yield states

    async def _states(self, voice_id: str) -> AsyncGenerator[Voice | None]:
        while True:
            try:
                yield (await self._voices.read(voice_id)).voice
            except UnknownVoiceError:
                yield None
            await asyncio.sleep(POLLING_SECONDS)


class CountedVoices(FirestoreVoices):
    """A `shared.ports.store.VoiceStore` that watches in one of the ways and counts.

    Args:
        client: the asynchronous Firestore client.

    Attributes:
        reads: how many documents Firestore has handed out, read or told.
        waiting: how many waiters know their document's present state and wait for the next.
        watcher: the way.
    """

    def __init__(self, client: RenewableClient) -> None:
        super().__init__(client)
        self.reads = 0
        self.waiting = 0
        self.watcher: Watcher = Polling(self)

    async def read(self, voice_id: str) -> Snapshot:
        """Read a document."""
        self.reads += 1
        return await super().read(voice_id)

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        """Follow a document."""
        async with (
            self.watcher.watch(voice_id) as states,
            aclosing(self._counted(states)) as counted,
        ):
            yield counted

    async def _counted(self, states: AsyncIterator[Voice | None]) -> AsyncGenerator[Voice | None]:
        is_told = not isinstance(self.watcher, Polling)
        first = await anext(states)
        self.reads += is_told
        self.waiting += 1
        try:
            yield first
            async for state in states:
                self.reads += is_told
                yield state
        finally:
            self.waiting -= 1


def open_counted_voices(
    alternative: Alternative, project_id: str, *, targets_per_stream: int
) -> CountedVoices:
    """Open the voices in Firestore, to be watched in one of the ways."""
    client = RenewableClient(project=project_id)
    voices = CountedVoices(client)
    match alternative:
        case Alternative.SHARED:
            voices.watcher = DocumentListener(client, targets_per_stream=targets_per_stream)
        case Alternative.ON_SNAPSHOT:
            voices.watcher = OnSnapshot(Client(project=project_id))
        case Alternative.POLLING:
            pass
    return voices
