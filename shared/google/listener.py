"""A listener that follows many documents over few `Listen` streams.

Firestore's asynchronous client has no `on_snapshot`, and the synchronous client uses a stream and
two threads per document. But one `Listen` stream can carry many targets. So all documents of the
process share streams: each document is one target, however many clients wait for it, and a new
stream is opened only when the others are full.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from google.api_core import exceptions as google_errors
from google.cloud.firestore_v1 import _helpers as firestore_values
from google.cloud.firestore_v1.types import ListenRequest, Target, TargetChange

from shared.voices.store import (
    LatestState,
    StoreUnavailableError,
    UnreadableVoiceError,
    document_path,
    from_document,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from google.api_core.grpc_helpers_async import GrpcAsyncStream
    from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
    from google.cloud.firestore_v1.types import Document, ListenResponse

    from shared.google.firestore import RenewableClient
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
RECONNECTIONS: Final = 8  # that may fail in a row before the waiting clients get an error

# The longest silence of a stream while an answer is due; after that it is opened again. A
# connection can break without an error: a network drops it, or the instance was frozen meanwhile.
SILENCE_SECONDS: Final = 10.0

# A stream can be open, answer for other documents, and still miss a change. So a document that is
# not final is read after a time without news, which doubles with each read.
FIRST_CHECK_SECONDS: Final = 10.0
LONGEST_CHECK_SECONDS: Final = 60.0
CHECK_SECONDS: Final = 4.0  # the time limit of such a read; after that the stream is opened again
_TICK_SECONDS: Final = 1.0  # documents that are due in the same second are read together

_PERMANENT: Final = (
    google_errors.PermissionDenied,
    google_errors.Unauthenticated,
    google_errors.InvalidArgument,
    google_errors.NotFound,
)


@dataclass(eq=False, slots=True)
class _WatchedDocument:
    """A document on a stream, and the waiting clients' views of it."""

    voice_id: str
    target_id: int
    stream: _Stream
    waiters: set[LatestState] = field(default_factory=set)
    seen: bool = False
    state: Voice | None = None
    has_failed: bool = False
    check_at: float = 0.0
    patience: float = FIRST_CHECK_SECONDS

    @property
    def is_awaited(self) -> bool:
        is_final = self.state is not None and self.state.status.is_final
        return self.seen and not is_final and not self.has_failed

    def put_state(self, state: Voice | None) -> None:
        self.seen, self.state = True, state
        self.patience = FIRST_CHECK_SECONDS
        self.check_at = asyncio.get_running_loop().time() + self.patience
        for waiter in self.waiters:
            waiter.put(state)

    def fail(self, error: StoreUnavailableError | UnreadableVoiceError) -> None:
        self.has_failed = True
        for waiter in self.waiters:
            waiter.fail(error)


class DocumentListener:
    def __init__(self, client: RenewableClient, *, targets_per_stream: int) -> None:
        self._connection = _Connection(client)
        self._targets_per_stream = targets_per_stream
        self._documents: dict[str, _WatchedDocument] = {}
        self._streams: list[_Stream] = []
        self._target_ids = count(1)

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        latest = LatestState()
        document = self._documents.get(voice_id)
        if document is None or document.has_failed:
            # No more states come for a document that has failed; its clients are about to leave.
            document = self._start_watching(voice_id)
        document.waiters.add(latest)
        if document.seen:
            latest.put(document.state)
        try:
            async with aclosing(latest.states()) as states:
                yield states
        finally:
            document.waiters.discard(latest)
            if not document.waiters:
                if self._documents.get(voice_id) is document:
                    del self._documents[voice_id]
                document.stream.remove(document)
                if not len(document.stream):
                    await self._close(document.stream)

    async def aclose(self) -> None:
        """Close every stream; clients that still wait get an error."""
        for stream in self._streams.copy():
            stream.fail(StoreUnavailableError("the listener was closed"))
            await self._close(stream)
        self._documents.clear()

    def _start_watching(self, voice_id: str) -> _WatchedDocument:
        with_space = (
            each for each in self._streams if each.is_open and len(each) < self._targets_per_stream
        )
        stream = next(with_space, None)
        if stream is None:
            stream = _Stream(self._connection)
            self._streams.append(stream)
        document = _WatchedDocument(voice_id, next(self._target_ids), stream)
        self._documents[voice_id] = document
        stream.add(document)
        return document

    async def _close(self, stream: _Stream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)
            await stream.aclose()


class _Connection:
    """The client's connection, database and metadata.

    They are private in the client; its own `on_snapshot` uses the same three.
    """

    def __init__(self, client: RenewableClient) -> None:
        self.client = client

    @asynccontextmanager
    async def listen(
        self, requests: AsyncIterator[ListenRequest]
    ) -> AsyncIterator[AsyncIterator[ListenResponse | None]]:
        """Open a stream; it yields None for an unreadable message."""
        api = cast("FirestoreAsyncClient", self.client._firestore_api)  # noqa: SLF001
        metadata = cast("Sequence[tuple[str, str]]", self.client._rpc_metadata)  # noqa: SLF001
        # No retry: the client's own would open a new stream without the requests that the broken
        # one had already taken, and then no document would be watched.
        opened = await api.listen(requests=requests, metadata=metadata, retry=None)
        stream = cast("GrpcAsyncStream[ListenResponse | None]", opened)
        try:
            yield aiter(stream)
        finally:
            # Otherwise the stream would stay open until the garbage collection.
            stream.cancel()

    async def read(self, voice_ids: Sequence[str]) -> dict[str, Voice | None]:
        """Read documents in one call; missing ones are None."""
        references = [self.client.document(document_path(voice_id)) for voice_id in voice_ids]
        found: dict[str, Voice | None] = {}
        async with asyncio.timeout(CHECK_SECONDS):
            # No retry: a new connection is better than a second try on one that says nothing.
            async for document in self.client.get_all(references, retry=None):
                fields = document.to_dict()
                found[document.id] = None if fields is None else from_document(document.id, fields)
        return found

    def request(self, *, add: _WatchedDocument | None = None, remove: int = 0) -> ListenRequest:
        database = self.client._database_string  # noqa: SLF001
        if add is None:
            return ListenRequest(database=database, remove_target=remove)
        name = f"{database}/documents/{document_path(add.voice_id)}"
        documents = Target.DocumentsTarget(documents=[name])
        return ListenRequest(
            database=database, add_target=Target(documents=documents, target_id=add.target_id)
        )

    def voice(self, document: Document) -> Voice:
        fields = cast("dict[str, Any]", firestore_values.decode_dict(document.fields, self.client))
        return from_document(document.name.rpartition("/")[2], fields)


class _Stream:
    """One `Listen` stream with its targets; it reconnects when the connection breaks."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._documents: dict[int, _WatchedDocument] = {}
        self._requests: asyncio.Queue[ListenRequest] = asyncio.Queue()
        self._has_answered = False
        self._timeout: asyncio.Timeout | None = None
        self._task = asyncio.create_task(self._run())

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def is_open(self) -> bool:
        return not self._task.done()

    def add(self, document: _WatchedDocument) -> None:
        self._documents[document.target_id] = document
        self._requests.put_nowait(self._connection.request(add=document))
        # Only an answer shows that the connection works, so a timeout that runs is not extended.
        if self._timeout is not None and self._timeout.when() is None:
            self._expect_answers()

    def remove(self, document: _WatchedDocument) -> None:
        del self._documents[document.target_id]
        self._requests.put_nowait(self._connection.request(remove=document.target_id))

    def fail(self, error: StoreUnavailableError) -> None:
        for document in self._documents.values():
            document.fail(error)

    async def aclose(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        failures = 0
        while True:
            self._has_answered = False
            try:
                await self._follow()
                error: Exception = StoreUnavailableError("Firestore closed the stream")
            except TimeoutError:
                self._connection.client.renew()
                error = StoreUnavailableError("Firestore did not answer on the stream")
            except Exception as broken:  # noqa: BLE001 - any error must reach the clients
                error = broken
            _LOG.info("a stream broke: %s", error, extra={"event": "listen_stream_broken"})
            failures = 1 if self._has_answered else failures + 1
            if isinstance(error, _PERMANENT) or failures > RECONNECTIONS:
                self.fail(StoreUnavailableError(f"Firestore cannot be listened to: {error}"))
                return
            await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS))

    async def _follow(self) -> None:
        # Targets belong to one connection, so a new connection must add all of them again.
        self._requests = asyncio.Queue()
        for document in self._documents.values():
            document.seen = False
            self._requests.put_nowait(self._connection.request(add=document))
        try:
            async with asyncio.timeout(None) as self._timeout:
                self._expect_answers()
                async with self._connection.listen(items_of(self._requests)) as responses:
                    await until_one_ends(self._handle_all(responses), self._find_missed_changes())
        finally:
            self._timeout = None

    async def _find_missed_changes(self) -> None:
        """Read documents that have had no news for long."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            due = [
                each
                for each in self._documents.values()
                if each.is_awaited and each.check_at <= now()
            ]
            if due and await self._read_changes(due):
                raise StoreUnavailableError("the stream missed a change")

    async def _read_changes(self, documents: Sequence[_WatchedDocument]) -> bool:
        """Read documents and pass changes on; return whether there were any."""
        before = {document.voice_id: document.state for document in documents}
        has_changed = False
        found = await self._connection.read(tuple(before))
        for document in documents:
            state = found.get(document.voice_id)
            had_news = document.state != before[document.voice_id]
            if state != document.state and not had_news and document.is_awaited:
                document.put_state(state)
                has_changed = True
            document.patience = min(2 * document.patience, LONGEST_CHECK_SECONDS)
            document.check_at = asyncio.get_running_loop().time() + document.patience
        return has_changed

    async def _handle_all(self, responses: AsyncIterator[ListenResponse | None]) -> None:
        async for response in responses:
            self._has_answered = True
            if response is None:
                raise StoreUnavailableError("a message from Firestore could not be read")
            self._handle(response)
            self._expect_answers()

    def _expect_answers(self) -> None:
        """Restart the timeout if an answer is due, and stop it if none is."""
        if self._timeout is None or self._timeout.expired():
            return
        is_due = any(not (each.seen or each.has_failed) for each in self._documents.values())
        now = asyncio.get_running_loop().time()
        self._timeout.reschedule(now + SILENCE_SECONDS if is_due else None)

    def _handle(self, response: ListenResponse) -> None:
        if "document_change" in response:
            change = response.document_change
            try:
                self._put_state(change.target_ids, self._connection.voice(change.document))
            except (KeyError, TypeError, ValueError) as error:
                # One unreadable document must not end the stream of the others.
                for document in self._documents_of(change.target_ids):
                    document.fail(UnreadableVoiceError(document.voice_id, error))
        elif "document_delete" in response:
            self._put_state(response.document_delete.removed_target_ids, None)
        elif "document_remove" in response:
            self._put_state(response.document_remove.removed_target_ids, None)
        elif "filter" in response and response.filter.count == 0:
            self._put_state([response.filter.target_id], None)
        elif "target_change" in response:
            self._handle_target_change(response.target_change)

    def _handle_target_change(self, change: TargetChange) -> None:
        kind = change.target_change_type
        # No target ids mean all targets of the stream.
        documents = self._documents_of(change.target_ids or tuple(self._documents))
        if kind == TargetChange.TargetChangeType.CURRENT:
            for document in documents:
                # Every existing document was sent before this, so one not seen does not exist.
                if not document.seen:
                    document.put_state(None)
        elif kind == TargetChange.TargetChangeType.RESET:
            for document in documents:
                document.seen = False
        elif kind == TargetChange.TargetChangeType.REMOVE and change.cause.code:
            refused = StoreUnavailableError(f"Firestore refused to listen: {change.cause.message}")
            for document in documents:
                document.fail(refused)

    def _documents_of(self, target_ids: Sequence[int]) -> list[_WatchedDocument]:
        return [self._documents[i] for i in target_ids if i in self._documents]

    def _put_state(self, target_ids: Sequence[int], state: Voice | None) -> None:
        for document in self._documents_of(target_ids):
            document.put_state(state)


async def items_of(queue: asyncio.Queue[ListenRequest]) -> AsyncIterator[ListenRequest]:
    while True:
        yield await queue.get()


async def until_one_ends(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run coroutines side by side until one ends or fails, and stop the others."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
