"""The whole service on one event loop in virtual time, with faults at any await."""

from __future__ import annotations

import asyncio
import gc
import inspect
import io
import json
import logging
import re
import uuid
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from unittest.mock import patch

from starlette.websockets import WebSocket

from functions.api.catalogue import Catalogue
from functions.api.intake import VoiceIntake
from functions.api.problems import Problem
from functions.api.routes import wait_until_final
from functions.api.schemas import NewTextVoice, NewVoice
from functions.api.visitors import CharacterChooser
from functions.dead_letter.dead_letters import DeadLetterHandler
from functions.live.conversion import LiveConversion
from functions.live.messages import ConnectionLimits, HeldBytes
from functions.live.protocol import SUBPROTOCOL
from functions.live.service import ConnectionAdmission, LiveService, SessionDependencies
from functions.on_upload.uploads import UploadHandler
from functions.sweep.sweeper import Patience, Sweeper
from infra.local.cloud.memory import MemoryTopics, MemoryVoices, Subscription
from shared.container.admission import Admission, FairQueue
from shared.conversion.characters import BuiltInCharacters, LoadedCharacter
from shared.conversion.stages import Conversion
from shared.conversion.stopwatch import ThreadWork
from shared.conversion.worker import Worker
from shared.runtime.limits import PlacesPerClient
from shared.runtime.settings import QUEUE_SECONDS
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.results.audio_files import encode_result
from shared.voices.messages import parse_conversion_message, parse_push, parse_upload_event
from shared.voices.objects import ObjectFacts, StorageUnavailableError, result_name
from shared.voices.store import StoreUnavailableError, UnknownVoiceError
from shared.voices.tickets import Tickets
from shared.voices.voice import (
    CONVERTED_WITHIN,
    MOST_ATTEMPTS,
    TRANSITIONS,
    ErrorCode,
    Input,
    PassingError,
    PublishError,
    Status,
)
from tests.support.buckets import MemoryBucket
from tests.support.characters import a_manifest
from tests.support.clock import loop_now, loop_seconds
from tests.support.conversion import FakeDecoder, FakeEngine, FakeSpeaker
from tests.support.messages import upload_notification
from tests.support.virtual_time import StuckError, VirtualTimeLoop
from tests.unit.api.stage import WEBM
from tests.unit.live.stage import a_scope, an_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    from shared.container.admission import Client, Share
    from shared.voices.messages import PushMessage
    from shared.voices.voice import Voice
    from tests.robustness.simulation.schedule import Schedule

LIVE: Final = "speaks to live"
VISITORS: Final = 4
TEXT: Final = "sends a text"
CROWD: Final = "sends four texts at once"
VISITS: Final = ("uploads", LIVE, TEXT, CROWD, "sends a form", "never uploads")
FAULTS_END: Final = 90.0
"""The time from which nothing fails any more, so that every voice must come to its end."""
ENDS_WITHIN: Final = 3 * 3600.0
RESTS: Final = 400.0
"""The time after the last voice's end in which everything is tidied up."""

LATENCY: Final = 0.01
UNANSWERED: Final = 4.0
SWEEP_PERIOD: Final = 300.0
UPLOAD_LIFETIME: Final = timedelta(minutes=10)
PATIENCE: Final = Patience(timedelta(seconds=SWEEP_PERIOD), UPLOAD_LIFETIME)
PLACES: Final = 1
MOST_TURNS: Final = 2
"""The most turns of one client for which another one waits."""

STOPS: Final = ("killed before", "killed after", "cancelled before", "cancelled after", "stopped")
DELAYS: Final = ("2 s late", "9 s late", "answered 9 s late", "frozen 4 s", "frozen 5 s")
FAULTS: Final = (*STOPS, *DELAYS, "refused", "answer lost")
DELIVERIES: Final = (
    "twice",
    "twice",
    "twice",
    "8 s late",
    "40 s late",
    "lost",
    "unreached",
    "answer lost",
)

MANIFEST: Final = a_manifest("mei").model_copy(update={"takes": "both"})
MEI: Final = LoadedCharacter(MANIFEST, cast("Any", FakeEngine()), cast("Any", FakeSpeaker()))


@dataclass(eq=False)
class Request:
    """A request under way; its name and the number of a call name the point of a choice."""

    name: str
    task: asyncio.Task[Any] | None = None
    calls: Counter[str] = field(default_factory=Counter)

    def point(self, call: str) -> str:
        self.calls[call] += 1
        return f"{self.name}: {call} {self.calls[call]}"


NUMBER: Final = re.compile(r"\d+")
REQUEST: Final[ContextVar[Request]] = ContextVar("REQUEST")


class Process:
    """One instance of a deployable, with a clock of its own; it may end at any call."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        skew = world.schedule.choose(f"clock of {name}", "0", "-90", "-1", "1", "90", rate=0.3)
        self._skew = timedelta(seconds=float(skew))
        self.requests: set[asyncio.Task[Any]] = set()
        self.is_over = False
        self._frozen_until = 0.0
        self.drain: Callable[[], Coroutine[Any, Any, None]] | None = None
        unreachable = StoreUnavailableError, StorageUnavailableError, PublishError
        store, storage, topic = unreachable
        self.voices = self._port(world.voices, "voices", store)
        self.uploads = self._port(world.uploads, "uploads", storage)
        self.results = self._port(world.results, "results", storage)
        self.conversions = self._port(world.topics.publisher("conversions"), "conversions", topic)

    def now(self) -> Any:
        return loop_now() + self._skew

    def _port(self, service: Any, name: str, error: type[Exception]) -> Any:
        return Port(self, service, name, error)

    async def request(self, name: str, work: Coroutine[Any, Any, Any]) -> Any:
        """Do the work of one request; OSError if the process ends, or gives the request up."""
        request = Request(name)
        REQUEST.set(request)
        task = request.task = asyncio.create_task(work)
        self.requests.add(task)
        task.add_done_callback(self.requests.discard)
        # An error that comes after the client has gone is nobody's.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise OSError(f"{self.name} is gone") from None
            raise

    async def call(
        self, name: str, effect: Callable[[], Awaitable[Any]], error: type[Exception] | None
    ) -> Any:
        """Call a service, or run a thread; anything may happen before and after its effect."""
        self._require_life()
        request = REQUEST.get()
        point = request.point(name)
        fate = self.world.choose(point, "", *(FAULTS if error else (*STOPS, *DELAYS)))
        late = next((float(word) for word in fate.split() if word.isdigit()), 0.0)
        seconds = LATENCY
        if error is None:
            seconds = float(self.world.choose(f"{point} takes", "0.3", "2", "6", rate=0.1))
        await self._stop_if(fate, "before", request)
        if fate.startswith("frozen"):
            self._frozen_until = loop_seconds() + late
        if late and not fate.startswith("answered"):
            await self._pass(late)
        if fate == "refused" and error:
            raise error(name)
        answer = await effect()
        await self._stop_if(fate, "after", request)
        await self._pass(seconds + late if fate.startswith("answered") else seconds)
        if fate == "answer lost" and error:
            await self._pass(UNANSWERED)
            raise error(name)
        return answer

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if (frozen := self._frozen_until - loop_seconds()) > 0:
            await asyncio.sleep(frozen)
        self._require_life()

    async def _stop_if(self, fate: str, moment: str, request: Request) -> None:
        if fate == f"killed {moment}":
            self.kill()
        elif fate == f"cancelled {moment}" and request.task is not None:
            request.task.cancel()
        elif fate == "stopped" and moment == "after":
            self.stop()
        self._require_life()

    def _require_life(self) -> None:
        if self.is_over:
            # Nothing that a killed process still does has any effect.
            raise asyncio.CancelledError

    def kill(self) -> None:
        self.is_over = True
        self.world.replace(self)
        for task in tuple(self.requests):
            task.cancel()

    def stop(self) -> None:
        """Send SIGTERM: hand back what is under way; the next instance serves meanwhile."""
        self.world.replace(self)
        if self.drain is not None:
            self.world.spawn(self.drain())


class Port:
    """A service as one process reaches it."""

    def __init__(self, process: Process, service: Any, name: str, error: type[Exception]) -> None:
        self._process, self._service = process, service
        self._port_name, self._error = name, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            effect = partial(found, *arguments, **named)
            return await self._process.call(f"{self._port_name}.{name}", effect, self._error)

        setattr(self, name, call)
        return call


class Threads(ThreadWork):
    """Threads whose work takes virtual time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def run(self, function: Any, /, *arguments: Any, **named: Any) -> Any:
        async def work() -> Any:
            if function is not encode_result:
                return function(*arguments, **named)
            samples, *rest = arguments
            return _encode_once(len(samples), tuple(rest), arguments)

        visitor = NUMBER.search(REQUEST.get().name)
        if visitor and self._process.world.is_poison(visitor.group()):
            self._process.kill()
        name = getattr(function, "__name__", "next")
        return await self._process.call(name, work, None)

    def longest_seconds(self) -> float:
        return 0.0


_ENCODED: Final[dict[Any, Any]] = {}


def _encode_once(length: int, rest: Any, arguments: Any) -> Any:
    """Encode a result once for all runs: all are the same."""
    key = length, str(rest)
    if key not in _ENCODED:
        _ENCODED[key] = encode_result(*arguments)
    return _ENCODED[key]


class FairPlaces(FairQueue):
    """A fair queue that counts the turns of one client for which a new one waits."""

    def __init__(self, world: World) -> None:
        super().__init__(PLACES, 0, loop_seconds, most_of_one=PLACES)
        self._world = world
        self._turns_before: dict[Client, Counter[Client]] = {}
        self._had_turns: set[Client] = set()

    @asynccontextmanager
    async def slot(self, client: Client = None, text: Share | None = None) -> AsyncIterator[None]:
        if client not in self._had_turns:
            self._turns_before.setdefault(client, Counter())
        try:
            async with super().slot(client, text):
                self._had_turns.add(client)
                self._turns_before.pop(client, None)
                for other, turns in self._turns_before.items():
                    turns[client] += 1
                    if turns[client] > MOST_TURNS:
                        self._world.violate(f"unfair: {other} waits while {client} takes turns")
                yield
        finally:
            self._turns_before.pop(client, None)


class SimulatedVoices(MemoryVoices):
    """The documents, whose every write is checked."""

    def __init__(self, world: World) -> None:
        super().__init__(now=loop_now)
        self._world = world
        self.holders: dict[tuple[str, int], str] = {}

    def _write(self, voice: Voice) -> int:
        entry = self._entries.get(voice.voice_id)
        if entry is not None and entry.voice != voice:
            self._check(entry.voice, voice)
        self._world.trace(f"{self._world.short(voice.voice_id)} is {voice.status} {voice.attempt}")
        return super()._write(voice)

    def _check(self, old: Voice, new: Voice) -> None:
        world, writer = self._world, REQUEST.get().name
        name = world.short(new.voice_id)
        if new.status is not old.status and new.status not in TRANSITIONS[old.status]:
            world.violate(f"backwards: {name} from {old.status} to {new.status}")
        if old.status.is_final:
            world.violate(f"changed after its end: {name}")
        holds = self.holders.get((new.voice_id, old.attempt))
        is_leased = old.lease_expires_at is not None and old.lease_expires_at > loop_now()
        if new.attempt != old.attempt:
            self.holders[new.voice_id, new.attempt] = writer
            if new.attempt != old.attempt + 1:
                world.violate(f"attempt {new.attempt} after {old.attempt} of {name}")
            if old.status is Status.CONVERTING and is_leased:
                world.violate(f"two leases at once: {name}, {holds} and {writer}")
        elif is_leased and writer != holds:
            world.violate(f"written without its lease: {name}, by {writer}, not {holds}")
        if new.status is Status.QUEUED and not world.requested[new.voice_id]:
            world.violate(f"recorded before it was published: {name}")
        if new.status is Status.DONE:
            self._check_result(new, writer, holds)
        if new.error is not None:
            self._check_error(new)

    def _check_result(self, new: Voice, writer: str, holds: str | None) -> None:
        name = self._world.short(new.voice_id)
        expected = result_name(new.voice_id, new.attempt, "wav")
        if writer != holds:
            self._world.violate(f"no fencing: {writer} commits {name}, which {holds} has")
        if new.result is None or new.result.object != expected:
            self._world.violate(f"the result of another attempt: {name}")
        if expected not in self._world.results.objects:
            self._world.violate(f"done without a result: {name}")

    def _check_error(self, new: Voice) -> None:
        name, code = self._world.short(new.voice_id), new.error and new.error.code
        is_old = loop_now() > new.created_at + CONVERTED_WITHIN
        if code is ErrorCode.ATTEMPTS_EXHAUSTED:
            if new.counted_attempts < MOST_ATTEMPTS and not is_old:
                self._world.violate(f"given up after {new.counted_attempts} attempts: {name}")
        elif code is ErrorCode.UPLOAD_EXPIRED:
            if new.voice_id in self._world.uploads.objects:
                self._world.violate(f"expired although its recording is there: {name}")
        elif code is not ErrorCode.SOURCE_MISSING:  # see the end
            self._world.violate(f"failed with {code}: {name}")


class SimulatedUploads(MemoryBucket):
    """The bucket of recordings, which notifies the topic `uploads`."""

    def __init__(self, world: World) -> None:
        super().__init__("uploads")
        self._world = world

    async def write(self, name: str, content: BinaryIO, **facts: Any) -> ObjectFacts:
        stored = await super().write(name, content, **facts)
        event = upload_notification(
            stored.as_input(), metadata=facts.get("metadata"), eventTime=loop_now().isoformat()
        )
        self._world.generations[name].add(stored.generation)
        self._world.topics.publish("uploads", event.data, event.attributes)
        return stored


class Results(MemoryBucket):
    """The bucket of results, which keeps every result that a document names."""

    def __init__(self, world: World) -> None:
        super().__init__("results")
        self._world = world

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        await super().delete_all(prefix, except_for=except_for)
        voice = self._world.document(prefix.partition("/")[0])
        if voice is not None and voice.result and voice.result.object not in self.objects:
            self._world.violate(f"the result of {self._world.short(voice.voice_id)} was deleted")


class Topics(MemoryTopics):
    """The topics, whose every conversion message is checked."""

    def __init__(self, world: World, deliver: Any, subscriptions: tuple[Subscription, ...]) -> None:
        super().__init__(deliver, subscriptions)
        self._world = world

    def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        if topic == "conversions":
            voice_id, upload = attributes["voice_id"], Input(**json.loads(data)["upload"])
            self._world.requested[voice_id] += 1
            if upload.generation not in self._world.generations[voice_id]:
                self._world.violate(f"nobody asked for this: {self._world.short(voice_id)}")
        super().publish(topic, data, attributes)


class World:
    """All deployables and services of one run."""

    def __init__(self, schedule: Schedule, *, traced: bool = False) -> None:
        self.schedule = schedule
        self.violations: list[str] = []
        self.log: list[str] | None = [] if traced else None
        self.requested: Counter[str] = Counter()
        self.generations: defaultdict[str, set[int]] = defaultdict(set)
        self.known: dict[str, str] = {}
        self.erased: set[str] = set()
        self.stored: set[str] = set()
        self.has_lost = False
        self.has_hit_live = False
        self._messages: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.voices = SimulatedVoices(self)
        self.uploads, self.results = SimulatedUploads(self), Results(self)
        attempts = int(schedule.choose("deliveries of a message", "30", "5", rate=0.5))

        def push(topic: str, endpoint: str, dead: str | None = None) -> Subscription:
            most = attempts if dead else 10_000
            return Subscription(topic, topic, endpoint, 100.0, dead, most)

        self.topics = Topics(
            self,
            self._deliver,
            (
                push("uploads", "on_upload", "dead-uploads"),
                push("conversions", "convert", "dead-conversions"),
                push("dead-uploads", "dead_letter"),
                push("dead-conversions", "dead_letter"),
            ),
        )
        self._starts: Mapping[str, Callable[[Process], Any]] = {
            "api": Api,
            "on_upload": lambda p: (
                UploadHandler(p.voices, p.conversions, lambda: p.uploads, 60.0).handle
            ),
            "convert 1": lambda p: _worker(self, p).handle,
            "convert 2": lambda p: _worker(self, p).handle,
            "live": lambda p: _live(self, p),
            "dead_letter": lambda p: (
                DeadLetterHandler(p.voices, p.uploads, p.results, p.conversions).handle
            ),
            "sweep": lambda p: Sweeper(p.voices, p.uploads, p.conversions, PATIENCE, p.now).sweep,
        }
        self._serving: dict[str, tuple[Process, Any]] = {}
        for name in self._starts:
            self._start(name, name)

    # What happens

    def choose(self, point: str, usual: str, *others: str, rate: float | None = None) -> str:
        if loop_seconds() > FAULTS_END:
            return usual
        choice = self.schedule.choose(point, usual, *others, rate=rate)
        if choice != usual:
            self.trace(f"{point}: {choice}")
            is_cleanup = "voices.read" in point or "results.delete" in point
            self.has_hit_live |= LIVE in point and (is_cleanup or choice in STOPS)
        return choice

    def is_poison(self, number: str) -> bool:
        """Return whether the conversion of a voice ends its process every time."""
        is_poison = self.schedule.choose(f"voice {number}", "is sound", "is poison", rate=0.04)
        return is_poison == "is poison"

    def violate(self, text: str) -> None:
        self.trace(f"VIOLATION: {text}")
        self.violations.append(text)

    def trace(self, text: str) -> None:
        if self.log is not None:
            self.log.append(f"{loop_seconds():8.2f} {text}")

    def short(self, voice_id: str) -> str:
        return f"voice {int(voice_id[-12:], 16)}"

    def document(self, voice_id: str) -> Voice | None:
        entry = self.voices._entries.get(voice_id)  # noqa: SLF001 - a check must not be a request
        return None if entry is None else entry.voice

    def new_voice_id(self) -> str:
        """Number a voice as its visitor, whether others come or not."""
        number = int(NUMBER.findall(REQUEST.get().name)[0])
        return str(uuid.UUID(int=number | 4 << 76 | 2 << 62))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Processes

    def _start(self, place: str, name: str) -> None:
        process = Process(self, name)
        self._serving[place] = process, self._starts[place](process)

    def replace(self, process: Process) -> None:
        """Start the next instance in the place of one that ends."""
        for place, (serving, _) in tuple(self._serving.items()):
            if serving is process:
                self._counts[place] += 1
                self._start(place, f"{place}, start {self._counts[place] + 1}")

    async def ask(self, place: str, name: str, work: Callable[[Any], Any]) -> Any:
        """Send a request to the process that serves at a place."""
        process, service = self._serving[place]
        return await process.request(name, work(service))

    # Messages

    async def _deliver(self, endpoint: str, envelope: Mapping[str, Any]) -> int:
        message = parse_push(json.dumps(envelope).encode())
        name = self._name_of(message)
        self._counts[name] += 1
        point = f"{name}, delivery {self._counts[name]}"
        fate = self.choose(point, "once", *DELIVERIES, rate=0.2)
        if fate in {"lost", "unreached"}:
            self.has_lost |= fate == "lost"
            return 204 if fate == "lost" else 503
        if fate.endswith("late"):
            await asyncio.sleep(float(fate.split()[0]))
        second = None
        if fate == "twice":
            second = self.spawn(self._push(endpoint, message, f"{point} again"))
        status = await self._push(endpoint, message, point)
        if second is not None:
            await second
        return 503 if fate == "answer lost" else status

    async def _push(self, endpoint: str, message: PushMessage, point: str) -> int:
        if endpoint == "convert":
            endpoint = "convert " + self.choose(f"{point}, to", "1", "2", rate=0.5)
        try:
            await self.ask(endpoint, point, lambda handle: handle(message))
        except (PassingError, OSError) as error:
            self.trace(f"{point}: {error!r}")
            return 503
        except Exception as error:  # noqa: BLE001 - any other error is a mistake of the program
            self.violate(f"unexpected error: {error!r} in {endpoint}")
            return 500
        return 204

    def _name_of(self, message: PushMessage) -> str:
        """Name a message by its topic and voice: other messages must not change its name."""
        known = self._messages.get(message.message_id)
        if known is None:
            if message.subscription.endswith("conversions"):
                voice_id = parse_conversion_message(message).voice_id
            else:
                voice_id = parse_upload_event(message).name
            kind = f"{message.subscription} of {self.short(voice_id)}"
            self._counts[kind] += 1
            known = self._messages[message.message_id] = f"{kind}, message {self._counts[kind]}"
        return known

    # The run

    async def run(self) -> None:
        visitors = [self.spawn(self._visit(number)) for number in range(1, VISITORS + 1)]
        sweeping = self.spawn(self._sweep_regularly())
        await asyncio.gather(*visitors)
        quiet_since = loop_seconds()
        while loop_seconds() - quiet_since < RESTS:
            await asyncio.sleep(20)
            unfinished = [each for each in self._documents() if not each.status.is_final]
            if unfinished or loop_seconds() < FAULTS_END:
                quiet_since = loop_seconds()
            if loop_seconds() > ENDS_WITHIN:
                names = ", ".join(self.short(each.voice_id) for each in unfinished)
                self.violate(f"without an end: {names}")
                break
        sweeping.cancel()
        await self.topics.aclose()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._check_end()

    def _documents(self) -> list[Voice]:
        return [entry.voice for entry in self.voices._entries.values()]  # noqa: SLF001

    def _check_end(self) -> None:
        kept = {voice.result.object for voice in self._documents() if voice.result}
        for name in sorted(self.results.objects.keys() - kept):
            voice_id, _, attempt = name.partition("/")
            holder = self.voices.holders[voice_id, int(attempt.partition(".")[0])]
            # No message comes again after an attempt of `live`: the bucket's lifecycle deletes it.
            if not self.has_lost and not (self.has_hit_live and LIVE in holder):
                self.violate(f"a result stays: {attempt} of {self.short(voice_id)}")
        for voice_id, visit in self.known.items():
            voice, name = self.document(voice_id), self.short(voice_id)
            if voice_id in self.erased:
                if voice is not None:
                    self.violate(f"not erased: {name}")
            elif voice is None:
                self.violate(f"lost: {name}, {visit}")
            elif voice.error is not None and voice.error.code is ErrorCode.SOURCE_MISSING:
                self.violate(f"its recording was lost: {name}, {visit}")
        for name, stored in self.uploads.objects.items():
            if stored.data and not self.has_lost:
                self.violate(f"a recording stays: {self.short(name)}")

    async def _sweep_regularly(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(SWEEP_PERIOD)
            number += 1
            with suppress(PassingError, OSError):
                await self.ask("sweep", f"sweep {number}", lambda sweep: sweep())

    # Visitors

    async def _visit(self, number: int) -> None:
        me = f"visitor {number}"
        visit = self.choose(me, "stays away", *VISITS, rate=0.7 if number > 1 else 1.0)
        if visit == "stays away":
            return
        await asyncio.sleep(float(self.choose(f"{me} comes after", "0", "0.02", "5", rate=0.5)))
        client = self.choose(f"{me} is", "somebody", "somebody else", rate=0.5)
        if visit == CROWD:
            await asyncio.gather(*(self._come(f"{me}{each}", TEXT, client) for each in range(4)))
        else:
            await self._come(me, visit, client)

    async def _come(self, me: str, visit: str, client: str) -> None:
        voice = None
        with suppress(PassingError, OSError):
            making = f"{me} creates a voice"
            if visit == TEXT:
                voice = await self.ask("api", making, lambda api: api.speak(client))
            else:
                voice = await self.ask("api", making, lambda api: api.create(client))
        if voice is None:
            return
        self.known[voice.voice_id] = visit
        erases = self.choose(f"{me} erases after", "never", "0.1", "0.4", "1", "3", "9", rate=0.2)
        if erases != "never":
            self.spawn(self._erase(me, voice.voice_id, float(erases)))
        if visit == "uploads":
            await self._upload(voice.voice_id)
        elif visit == LIVE:
            await self._speak_live(me, voice)
        elif visit == "sends a form":
            await self._send_form(me, voice)
        await self._wait(me, voice.voice_id)

    async def _upload(self, voice_id: str) -> None:
        """Send the recording to its signed address, which takes one."""
        await asyncio.sleep(LATENCY)
        if voice_id not in self.uploads.objects:
            content = io.BytesIO(WEBM)
            await self.uploads.write(voice_id, content, content_type="audio/webm", size=len(WEBM))
        self.stored.add(voice_id)

    async def _send_form(self, me: str, voice: Voice) -> None:
        for number in range(1, 20):
            if voice.voice_id in self.erased:
                return
            with suppress(PassingError, OSError, Problem, UnknownVoiceError):
                name = f"{me} sends form {number}"
                await self.ask("api", name, lambda api: api.accept(voice.voice_id))
                self.stored.add(voice.voice_id)
                return
            await asyncio.sleep(2)

    async def _speak_live(self, me: str, voice: Voice) -> None:
        """Speak to `live`; upload what it has not stored, as the page does."""
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        sent: list[dict[str, Any]] = []
        ticket = self.tickets.sign(voice.voice_id, UPLOAD_LIFETIME).text
        start = {"type": "start", "ticket": ticket, "content_type": "audio/webm"}
        inbox.put_nowait({"type": "websocket.connect"})
        inbox.put_nowait({"type": "websocket.receive", "text": json.dumps(start)})
        inbox.put_nowait({"type": "websocket.receive", "bytes": WEBM})
        inbox.put_nowait({"type": "websocket.receive", "text": json.dumps(an_end(WEBM))})
        gone = {"type": "websocket.disconnect", "code": 1006}

        async def send(message: Any) -> None:
            if message["type"] == "websocket.close":
                inbox.put_nowait(gone)
            if text := message.get("text"):
                sent.append(json.loads(text))

        leaves = self.choose(f"{me} leaves live after", "its end", "0.02", "0.2", "2", rate=0.2)
        if leaves != "its end":
            asyncio.get_running_loop().call_later(float(leaves), inbox.put_nowait, gone)
        scope = a_scope(SUBPROTOCOL, {"host": "live.test"})
        socket = WebSocket(scope, inbox.get, send)
        with suppress(OSError):
            await self.ask("live", f"{me} {LIVE}", lambda live: live.serve(socket))
        told = [each for each in sent if each["type"] != "received"]
        last = told[-1] if told else {}
        if last.get("type") not in {"done", "failed"} and not last.get("stored"):
            await self._upload(voice.voice_id)
        self.stored.add(voice.voice_id)

    async def _erase(self, me: str, voice_id: str, after: float) -> None:
        await asyncio.sleep(after)
        self.erased.add(voice_id)
        for number in range(1, 20):
            with suppress(PassingError, OSError):
                await self.ask("api", f"{me} erases {number}", lambda api: api.erase(voice_id))
                return
            await asyncio.sleep(2)

    async def _wait(self, me: str, voice_id: str) -> None:
        """Wait on the listener until the voice is final, unless the visitor leaves."""
        leaves = self.choose(f"{me} leaves after", "the end", "0.5", "5", rate=0.2)
        patience = ENDS_WITHIN if leaves == "the end" else float(leaves)
        with suppress(TimeoutError, UnknownVoiceError):
            async with asyncio.timeout(patience):
                while True:
                    with suppress(PassingError, OSError, Problem):
                        waiting = f"{me} waits"
                        voice = await self.ask("api", waiting, lambda api: api.wait(voice_id))
                        if not voice.status.is_final:
                            self.violate(f"a waiting client got {voice.status}")
                        return
                    await asyncio.sleep(1)

    tickets: Final = Tickets(["k" * 32], loop_now)


class Api:
    """The parts of the api that work on voices."""

    def __init__(self, process: Process) -> None:
        catalogue = Catalogue({"mei": MANIFEST}, now=loop_seconds)
        self._voices = process.voices
        self._intake = VoiceIntake(
            process.voices,
            process.uploads,
            process.results,
            lambda: process.conversions,
            catalogue,
            max_bytes=100_000,
            max_characters=50,
            upload_lifetime=UPLOAD_LIFETIME,
            now=process.now,
        )
        self._visitor = CharacterChooser(None, None)

    async def create(self, client: str) -> Voice:
        return (await self._intake.create(NewVoice(), self._visitor, client))[0]

    async def speak(self, client: str) -> Voice:
        voice, _ = await self._intake.create_text(
            NewTextVoice(text="はい。"), self._visitor, client
        )
        return voice

    async def accept(self, voice_id: str) -> None:
        voice = (await self._voices.read(voice_id)).voice
        await self._intake.accept_recording(voice, io.BytesIO(WEBM), len(WEBM), "audio/webm")

    async def wait(self, voice_id: str) -> Voice:
        async def check(voice: Voice) -> None:
            if self._intake.is_expired(voice, loop_now()):
                await self._intake.expire(voice)

        return await wait_until_final(self._voices, voice_id, 300.0, check)

    async def erase(self, voice_id: str) -> None:
        try:
            await self._voices.read(voice_id)
        except UnknownVoiceError:
            await self._intake.erase_objects(voice_id)
        else:
            await self._intake.erase(voice_id)


def _conversion(process: Process) -> Conversion:
    return Conversion(
        uploads=process.uploads,
        results=process.results,
        decoder=cast("Any", FakeDecoder()),
        limits=DecodeLimits(),
        max_speech_seconds=60.0,
        result_lifetime=timedelta(days=1),
        threads=Threads(process),
    )


def _worker(world: World, process: Process) -> Worker:
    admission = Admission(
        running=PLACES,
        waiting=10,
        slots=FairPlaces(world),
        patience=QUEUE_SECONDS,
        now=loop_seconds,
    )
    characters = BuiltInCharacters({"mei": MEI})
    worker = Worker(process.voices, characters, _conversion(process), admission, 60.0)
    process.drain = worker.drain
    return worker


def _live(world: World, process: Process) -> LiveService:
    admission = Admission(running=2, waiting=10, now=loop_seconds)
    conversion, characters = _conversion(process), BuiltInCharacters({"mei": MEI})
    worker = Worker(process.voices, characters, conversion, admission, 60.0)
    service = LiveService(
        ConnectionAdmission((), 10, PlacesPerClient(0, 1)),
        ConnectionLimits(100_000, 100, 30.0),
        HeldBytes(1_000_000),
        SessionDependencies(
            world.tickets,
            process.voices,
            LiveConversion(
                process.voices, process.uploads, conversion, characters, admission, worker
            ),
            max_seconds=10.0,
        ),
    )

    async def drain() -> None:
        await service.drain(5.0)
        await worker.drain()

    process.drain = drain
    return service


class NumberedTask(asyncio.Task[Any]):
    """A task by whose number sets are ordered, and not by its place in memory."""

    def __init__(self, number: int, *arguments: Any, **named: Any) -> None:
        self._number = number
        super().__init__(*arguments, **named)

    def __hash__(self) -> int:
        return self._number


class SimulationLoop(VirtualTimeLoop):
    """A loop of virtual time without threads."""

    def __init__(self) -> None:
        super().__init__()
        numbers = count()
        self.set_task_factory(
            lambda loop, work, **named: NumberedTask(next(numbers), work, loop=loop, **named)
        )

    def run_in_executor(  # type: ignore[override]  # as in VirtualTimeLoop
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        del executor
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - passed on
            done.set_exception(error)
        return done


def simulate(schedule: Schedule, *, traced: bool = False) -> World:
    """Run one schedule from its beginning to the end of all its voices."""
    # With numbers in order, two workers' leases might have one length: the second's greater number
    # and its shorter delay would cancel out.
    lengths = Random(0)  # noqa: S311 - no secret: every run must be the same
    loop = SimulationLoop()

    async def run() -> World:
        world = World(schedule, traced=traced)
        with (
            patch("shared.voices.voice.new_voice_id", world.new_voice_id),
            patch("shared.conversion.leases.randbelow", lengths.randrange),
        ):
            try:
                await world.run()
            except StuckError as error:
                world.violate(f"stuck: {error}")
        return world

    logging.disable()
    # Some objects are known only for as long as they are used: that must not depend on chance.
    gc.disable()
    try:
        return loop.run_until_complete(run())
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
