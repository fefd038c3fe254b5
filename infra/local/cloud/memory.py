"""Topics in memory that push over HTTP, like Pub/Sub: at least once, and with dead letters.

Tests use them, and so does the local cloud without Google's emulator.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from infra.local.cloud.push_flow import PushFlow
from shared.characters.own.own_character import (
    OwnCharacterStatus,
    is_public,
    is_to_clean,
    is_waiting,
)
from shared.characters.own.store import (
    CharacterStart,
    OwnCharacterSnapshot,
    UnknownOwnCharacterError,
)
from shared.voices.store import (
    ConflictError,
    FoundVoices,
    LatestState,
    Snapshot,
    UnknownVoiceError,
    VoiceExistsError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from shared.characters.own.own_character import OwnCharacter
    from shared.characters.own.store import DayLimits
    from shared.voices.voice import Status, Voice


_LOG = logging.getLogger(__name__)

ACKNOWLEDGING: Final = frozenset({102, 200, 201, 202, 204})
"""The statuses that acknowledge a push; after any other one the message is delivered again."""


Deliver = Callable[[str, Mapping[str, Any]], Awaitable[int]]
"""POSTs an envelope as JSON to an endpoint; returns the status, OSError if no answer comes."""


@dataclass(frozen=True, slots=True)
class Subscription:
    name: str
    topic: str
    endpoint: str
    acknowledgement_seconds: float
    dead_letter_topic: str | None = None
    attempts: int = 30
    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 10.0
    unless: str | None = None

    @property
    def filter(self) -> str | None:
        return None if self.unless is None else f"NOT attributes:{self.unless}"


@dataclass(eq=False, slots=True)
class _Message:
    data: bytes
    attributes: Mapping[str, str]
    message_id: str
    published_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def envelope(self, subscription: str) -> dict[str, Any]:
        message = {
            "data": base64.b64encode(self.data).decode(),
            "attributes": dict(self.attributes),
            "messageId": self.message_id,
            "publishTime": self.published_at.isoformat(),
        }
        return {"message": message, "subscription": subscription}


class _Pusher:
    """Pushes the messages of one subscription in their order, as its flow allows."""

    def __init__(self) -> None:
        self._flow = PushFlow()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._advance()
        await turn

    def end(self, *, acknowledged: bool) -> None:
        self._flow.end(asyncio.get_running_loop().time(), acknowledged=acknowledged)
        self._advance()

    def _advance(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        while self._waiting:
            if self._waiting[0].done():  # cancelled
                self._waiting.popleft()
            elif (pause := self._flow.begin(loop.time())) == 0:
                self._waiting.popleft().set_result(None)
            else:
                if math.isfinite(pause):
                    self._timer = loop.call_later(pause, self._advance)
                return


class MemoryTopics:
    def __init__(self, deliver: Deliver, subscriptions: tuple[Subscription, ...]) -> None:
        self._deliver = deliver
        self._subscriptions = subscriptions
        self._pushers = {subscription.name: _Pusher() for subscription in subscriptions}
        self._message_ids = count(1)
        self._deliveries: set[asyncio.Task[None]] = set()
        self.dead: list[tuple[str, bytes]] = []

    def publisher(self, topic: str) -> MemoryPublisher:
        return MemoryPublisher(self, topic)

    def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        message = _Message(data, attributes, str(next(self._message_ids)))
        for subscription in self._subscriptions:
            if subscription.topic == topic and subscription.unless not in attributes:
                delivery = asyncio.create_task(self._deliver_until_done(subscription, message))
                self._deliveries.add(delivery)
                delivery.add_done_callback(self._deliveries.discard)

    async def aclose(self) -> None:
        deliveries = tuple(self._deliveries)
        for delivery in deliveries:
            delivery.cancel()
        await asyncio.gather(*deliveries, return_exceptions=True)

    async def _deliver_until_done(self, subscription: Subscription, message: _Message) -> None:
        pause = subscription.first_backoff_seconds
        for attempt in range(1, subscription.attempts + 1):
            if await self._push(subscription, message):
                return
            if attempt < subscription.attempts:
                await asyncio.sleep(pause)
                pause = min(pause * 2, subscription.longest_backoff_seconds)
        if subscription.dead_letter_topic is None:
            _LOG.error("%s gives up message %s", subscription.name, message.message_id)
            self.dead.append((subscription.topic, message.data))
            return
        origin = {"CloudPubSubDeadLetterSourceSubscription": subscription.name.rpartition("/")[2]}
        self.publish(subscription.dead_letter_topic, message.data, {**message.attributes, **origin})

    async def _push(self, subscription: Subscription, message: _Message) -> bool:
        envelope, pusher = message.envelope(subscription.name), self._pushers[subscription.name]
        await pusher.begin()
        is_acknowledged = False
        try:
            async with asyncio.timeout(subscription.acknowledgement_seconds):
                status = await self._deliver(subscription.endpoint, envelope)
            is_acknowledged = status in ACKNOWLEDGING
        except OSError as error:  # TimeoutError is one, too
            _LOG.warning("push to %s failed: %s", subscription.endpoint, error)
        finally:
            pusher.end(acknowledged=is_acknowledged)
        return is_acknowledged


class MemoryPublisher:
    def __init__(self, topics: MemoryTopics, topic: str) -> None:
        self._topics = topics
        self._topic = topic

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        self._topics.publish(self._topic, data, attributes)

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""


class _Entry(NamedTuple):
    voice: Voice
    revision: int


class MemoryVoices:
    """A `VoiceStore` for one event loop of one process."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._revisions = count(1)
        self._entries: dict[str, _Entry] = {}
        self._waiters: defaultdict[str, set[LatestState]] = defaultdict(set)

    @property
    def count(self) -> int:
        return len(self._entries)

    async def create(self, voice: Voice) -> None:
        there, _ = self._entries.get(voice.voice_id, (None, None))
        if there is None:
            self._write(voice)
        elif there != voice:
            raise VoiceExistsError(f"there is a voice {voice.voice_id} already")

    async def read(self, voice_id: str) -> Snapshot:
        if voice_id not in self._entries:
            raise UnknownVoiceError(voice_id)
        return Snapshot(*self._entries[voice_id], self._now())

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        _, revision = self._entries.get(voice.voice_id, (None, None))
        if revision != snapshot.revision:
            raise ConflictError(f"voice {voice.voice_id} was changed by another")
        return Snapshot(voice, self._write(voice), self._now())

    async def delete(self, voice_id: str) -> None:
        if self._entries.pop(voice_id, None):
            self._tell(voice_id, None)

    async def find_unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> FoundVoices:
        def place(snapshot: Snapshot) -> Any:
            return snapshot.voice.updated_at, snapshot.voice.voice_id

        found = [
            Snapshot(voice, revision, self._now())
            for voice, revision in self._entries.values()
            if voice.status is status and voice.updated_at < since
        ]
        found = [each for each in sorted(found, key=place) if not after or place(each) > after]
        return FoundVoices(
            found[:limit], end=place(found[limit - 1]) if len(found) >= limit else None
        )

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        latest = LatestState()
        self._waiters[voice_id].add(latest)
        latest.put(self._entries.get(voice_id, (None, 0))[0])
        try:
            async with aclosing(latest.states()) as states:
                yield states
        finally:
            self._waiters[voice_id].discard(latest)
            if not self._waiters[voice_id]:
                del self._waiters[voice_id]

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def _write(self, voice: Voice) -> int:
        entry = self._entries[voice.voice_id] = _Entry(voice, next(self._revisions))
        self._tell(voice.voice_id, voice)
        return entry.revision

    def _tell(self, voice_id: str, state: Voice | None) -> None:
        for waiter in self._waiters.get(voice_id, ()):
            waiter.put(state)


class MemoryOwnCharacters:
    """An `OwnCharacterStore` for one event loop of one process."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._revisions = count(1)
        self._entries: dict[str, tuple[OwnCharacter, int]] = {}
        # Deleting a character does not give its place of the day back.
        self._begun: list[CharacterStart] = []

    async def create(self, character: OwnCharacter, *, limits: DayLimits, by: str) -> None:
        self._take_place(CharacterStart(character.created_at, by), limits)
        self._write(character)

    async def take_place(self, *, limits: DayLimits, by: str) -> None:
        self._take_place(CharacterStart(self._now(), by), limits)

    async def read(self, character_id: str) -> OwnCharacterSnapshot:
        if character_id not in self._entries:
            raise UnknownOwnCharacterError(character_id)
        return self._snapshot(character_id)

    async def replace(
        self, snapshot: OwnCharacterSnapshot, character: OwnCharacter
    ) -> OwnCharacterSnapshot:
        character_id = character.character_id
        _, revision = self._entries.get(character_id, (None, None))
        if revision != snapshot.revision:
            raise ConflictError(f"character {character_id} was changed by another")
        self._write(character)
        return self._snapshot(character_id)

    async def delete(self, character_id: str) -> None:
        self._entries.pop(character_id, None)

    async def find_waiting(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        return self._found(lambda each: is_waiting(each, self._now()))[:limit]

    async def find_in_training(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        return self._found(
            lambda each: (
                each.status is OwnCharacterStatus.TRAINING and not is_waiting(each, self._now())
            )
        )[:limit]

    async def find_to_clean(self, limit: int) -> Sequence[OwnCharacterSnapshot]:
        return self._found(lambda each: is_to_clean(each, self._now()))[:limit]

    async def find_public(self, limit: int) -> Sequence[OwnCharacter]:
        return [each.character for each in self._found(is_public)[:limit]]

    async def find_by_owner(self, owner: str, limit: int) -> Sequence[OwnCharacter]:
        found = [each for each, _ in self._entries.values() if each.owner == owner]
        return sorted(found, key=lambda each: each.created_at, reverse=True)[:limit]

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _take_place(self, begun: CharacterStart, limits: DayLimits) -> None:
        since = self._now() - timedelta(days=1)
        self._begun = [each for each in self._begun if each.at > since]
        limits.require_place(self._begun, begun.by)
        self._begun.append(begun)

    def _found(self, wanted: Callable[[OwnCharacter], bool]) -> Sequence[OwnCharacterSnapshot]:
        found = [each for each, _ in self._entries.values() if wanted(each)]
        ordered = sorted(found, key=lambda each: each.updated_at)
        return [self._snapshot(each.character_id) for each in ordered]

    def _snapshot(self, character_id: str) -> OwnCharacterSnapshot:
        character, revision = self._entries[character_id]
        return OwnCharacterSnapshot(character, revision, self._now())

    def _write(self, character: OwnCharacter) -> None:
        self._entries[character.character_id] = character, next(self._revisions)
