"""Voices that drop at random moments, and then a mixed load: what is left of them?

    nox -s soak -- --leaks --drops 5000 --minutes 60 [--write]

Everything runs in this one process, where tasks can be counted. A voice drops on a socket, on a
socket whose visitor hears the character, during an upload, while its text is spoken, or while
somebody waits for it. What the process has is compared with what it had after the first hundred.

Pools keep what they once needed at the same moment, up to their bounds, and so grow for as long as
the load is new to them. Their threads are counted apart from all others, and the connections to
Cloud Storage are opened before the first voice. malloc keeps freed memory likewise, for each of its
arenas, of which there are as many as threads needed one at the same moment. So what is in use is
counted beside the memory that the process has.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx
import psutil
from websockets.exceptions import WebSocketException

from infra.local.cloud.start import local_cloud
from infra.local.commands.live import LiveVisitor
from infra.local.commands.visitor import (
    REQUEST_SECONDS,
    RecordingRequest,
    RequestRefusedError,
    TextRequest,
    Visitor,
    open_client,
)
from infra.local.configuration.options import CloudOptions
from shared.conversion.characters import return_memory
from shared.google.storage import CALLS_AT_ONCE, CloudStorageBucket
from shared.voices.objects import StorageUnavailableError
from tests.integration.served import SAMPLE
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from infra.local.cloud.local_cloud import LocalCloud

_Kind = TypeVar("_Kind")

FIRST: Final = 100
"""What is there after so many drops is what later states are compared with."""

AT_ONCE: Final = 4
LONGEST_SECONDS: Final = 1.5
"""A voice drops at a random moment of this time."""

SETTLING_SECONDS: Final = 45.0
"""How long what was dropped may take to end: longer than any idle connection is kept."""

ALLOWED: Final = 0.05
ALLOWED_OF: Final[Mapping[str, float]] = {"memory (MB)": 0.25}
"""By which share more of something may grow: memory grows with what malloc keeps of freed memory.
After 500 voices it was 13 % more, and what was in use 2 %."""

LEAST: Final[Mapping[str, float]] = {
    "memory (MB)": 16,
    "memory in use (MB)": 16,
    "thousands of objects": 16,
    "tasks": 3,
}
"""What so many more of are no leak, however few there were; of all others one more is too much."""

BOUNDED: Final[Mapping[str, str]] = {"threads in pools": "places for threads in pools"}
"""What cannot become more than there is of something else, which must not grow itself."""

TEXT: Final = "今日はいい天気ですね。明日も晴れるそうです。"


@dataclass(frozen=True, slots=True)
class State:
    counts: Mapping[str, float]

    def grown_since(self, before: State) -> list[str]:
        """Return what there is more of than is allowed, as sentences."""
        return [
            f"{name} have grown from {before.counts[name]:g} to {now:g}"
            for name, now in self.counts.items()
            if name not in BOUNDED
            and now > before.counts[name] * (1 + ALLOWED_OF.get(name, ALLOWED))
            and now > before.counts[name] + LEAST.get(name, 0)
        ]


def state_of(folder: Path) -> State:
    """Count what this process and its children have; temporary files lie in the folder."""
    gc.collect()
    return_memory()
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    counts: Counter[str] = Counter()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            counts["processes"] += 1
            counts["file descriptors"] += process.num_fds()
            counts["memory (MB)"] += round(process.memory_info().rss / 1e6)
    counts["memory in use (MB)"] = round(_bytes_in_use() / 1e6)
    counts["thousands of objects"] = round(sys.getallocatedblocks() / 1e3)
    pools = _open(ThreadPoolExecutor)
    pooled = {thread for pool in pools for thread in pool._threads}  # noqa: SLF001 - no other way
    counts["threads outside of pools"] = len({*threading.enumerate()} - pooled)
    counts["threads in pools"] = sum(thread.is_alive() for thread in pooled)
    counts["places for threads in pools"] = sum(pool._max_workers for pool in pools)  # noqa: SLF001
    tasks = len(asyncio.all_tasks())
    # A bucket keeps the emptied object of an erased voice for a day, so that its name stays used.
    files = sum(1 for path in folder.rglob("*") if "storage" not in path.parts)
    return State(counts | {"tasks": tasks, "files": files})


class _MallocFacts(ctypes.Structure):
    """`struct mallinfo2` of glibc; see mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _bytes_in_use() -> int:
    """Ask glibc's malloc how much it has handed out; Python's own objects are not among it."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if ask is None:
        return 0
    ask.restype = _MallocFacts
    facts = ask()
    return int(facts.uordblks + facts.hblkhd)


def _open(kind: type[_Kind]) -> list[_Kind]:
    return [each for each in gc.get_objects() if isinstance(each, kind)]


async def open_connections() -> None:
    """Open every connection that the clients of Cloud Storage may keep."""
    for bucket in _open(CloudStorageBucket):
        # On a busy machine one may be late; it is opened when it is first needed.
        with suppress(StorageUnavailableError):
            await asyncio.gather(*(bucket.connect() for _ in range(CALLS_AT_ONCE)))


@dataclass
class Dropping:
    cloud: LocalCloud
    visitor: Visitor
    client: httpx.AsyncClient
    random: random.Random
    dropped: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    async def drop(self, times: int) -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def one() -> None:
            async with places:
                with suppress(httpx.TransportError):
                    await self._drop_one()

        await asyncio.gather(*(one() for _ in range(times)))

    async def load(self, seconds: float) -> None:
        """Convert whole recordings and texts, and let others drop, for this long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # A connection that the server ends in the moment of a request is no leak.
            with suppress(httpx.TransportError):
                await asyncio.gather(self._whole(is_text=False), self._whole(is_text=True))
                await self._drop_one()

    async def _drop_one(self) -> None:
        name, begin = self.random.choice(list(self._ways().items()))
        self.dropped[name] += 1
        created: dict[str, Any] = {}
        wish = RecordingRequest("mei", None, "wav")
        if name == "text":
            created = await self.visitor.create_text(TextRequest(TEXT, "mei"))
        else:
            created = await self.visitor.create(wish, "audio/webm")
        doing = asyncio.create_task(begin(created))
        await asyncio.wait({doing}, timeout=self.random.uniform(0, LONGEST_SECONDS))
        doing.cancel()
        with suppress(
            asyncio.CancelledError, RequestRefusedError, httpx.HTTPError, WebSocketException
        ):
            await doing
        await self.client.delete(f"{self._api}/voices/{created['voice_id']}")

    def _ways(self) -> Mapping[str, Callable[[dict[str, Any]], Coroutine[Any, Any, None]]]:
        return {
            "socket": lambda created: self._speak(created, hear=False),
            "hearing": lambda created: self._speak(created, hear=True),
            "upload": self._upload,
            "text": self._wait,
            "waiting": self._wait,
        }

    async def _speak(self, created: dict[str, Any], *, hear: bool) -> None:
        live = created["live"]
        async with LiveVisitor(live["url"], live["ticket"], hear=hear) as visitor:
            try:
                await visitor.speak(SAMPLE.read_bytes(), seconds=1.0)
                await visitor.end()
            except asyncio.CancelledError:
                # As a phone that has lost its network: no closing handshake.
                visitor.abort()
                raise

    async def _upload(self, created: dict[str, Any]) -> None:
        upload, data = created["upload"], SAMPLE.read_bytes()

        async def slowly() -> Any:
            for begin in range(0, len(data), 1 + len(data) // 10):
                yield data[begin : begin + 1 + len(data) // 10]
                await asyncio.sleep(0.08)

        headers = upload["headers"] | {"content-length": str(len(data))}
        await self.client.put(upload["url"], headers=headers, content=slowly(), timeout=60)

    async def _wait(self, created: dict[str, Any]) -> None:
        address = f"{self._api}/conversion/{created['voice_id']}"
        await self.client.get(address, timeout=60)

    async def _whole(self, *, is_text: bool) -> None:
        if is_text:
            created = await self.visitor.create_text(TextRequest(TEXT, "mei"))
        else:
            created = await self.visitor.create(RecordingRequest("mei", None, "wav"), "audio/webm")
            await self.visitor.upload(created, SAMPLE.read_bytes())
        voice = await self.visitor.watch(created["voice_id"], lambda _voice: None)
        self.ended[voice.status.value] += 1
        await self.client.delete(f"{self._api}/voices/{created['voice_id']}")

    @property
    def _api(self) -> str:
        return f"{self.cloud.addresses.api}/api/v1"


async def settled(folder: Path) -> State:
    """Return the state when nothing has ended for a while."""
    state = state_of(folder)
    end = time.monotonic() + SETTLING_SECONDS
    while time.monotonic() < end:
        await asyncio.sleep(SETTLING_SECONDS / 9)
        state = state_of(folder)
    return state


def report_of(states: Mapping[str, State], dropping: Dropping) -> Report:
    dropped = tuple(sorted(dropping.dropped.items()))
    whole = tuple((f"whole voices {status}", count) for status, count in dropping.ended.items())
    names = next(iter(states.values())).counts
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (name, *(round(state.counts[name]) for state in states.values())) for name in names
    )
    return Report(
        "leaks",
        (
            Table("What dropped", ("while", "voices"), (*dropped, *whole)),
            Table("What the process and its children have", ("what", *states), rows),
        ),
    )


async def find_leaks(drops: int, minutes: float) -> tuple[Report, list[str]]:
    with tempfile.TemporaryDirectory(prefix="voice-avatar-leaks-") as name:
        folder = Path(name)
        # Everything that is temporary is counted here.
        tempfile.tempdir = name
        async with (
            local_cloud(CloudOptions(folder=folder / "local"), embedded=True) as cloud,
            open_client() as client,
        ):
            client.timeout = httpx.Timeout(REQUEST_SECONDS)
            visitor = Visitor(client, cloud.addresses.api, cloud.voices)
            dropping = Dropping(cloud, visitor, client, random.Random(28))  # noqa: S311 - nothing secret
            await open_connections()
            # What is loaded when it is first needed is there now.
            await dropping.load(1.0)
            await dropping.drop(min(FIRST, drops))
            states: dict[str, State] = {}

            async def look(name: str) -> None:
                states[name] = await settled(folder)
                # At once: who ends a run of hours early has this much of it.
                print(f"{name}: {dict(states[name].counts)}", flush=True)  # noqa: T201 - to its user

            await look(f"after {min(FIRST, drops)}")
            await dropping.drop(max(0, drops - FIRST))
            await look(f"after {drops:,}")
            await dropping.load(minutes * 60)
            await look(f"after {minutes:g} minutes of load")
        tempfile.tempdir = None
    first, *later = states.values()
    complaints = [complaint for state in later for complaint in state.grown_since(first)]
    return report_of(states, dropping), complaints
