"""Measures clients that wait in `GET /api/v1/conversion/{voice_id}` on one process of the api."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import numpy as np
import psutil

from infra.local.configuration import names
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    Addresses,
    deployable_environments,
)
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import CloudOptions
from shared.google.firestore import RenewableClient
from shared.google.voices import FirestoreVoices
from shared.voices import voice as voices_of
from shared.voices.objects import result_name, upload_name
from shared.voices.store import Snapshot, VoiceStore, change, document_path, to_document
from shared.voices.voice import Input, Options, Result, Voice
from tools.benchmarks.report import PERCENTILES, Cell, Report, Table
from tools.benchmarks.servers import NOWHERE, changed_environment, emulator, running


@dataclass(eq=False, slots=True)
class Visitor:
    """A client that waits for one voice."""

    snapshot: Snapshot
    answer: asyncio.Task[tuple[str, float]]


class Crowd:
    """Clients that wait in the api at a port of 127.0.0.1, each over its own connection."""

    def __init__(self, port: int, client: RenewableClient) -> None:
        self._port = port
        self._client = client
        self._addresses = (str(address) for address in ip_network("10.0.0.0/8").hosts())

    async def arrive(self, count: int) -> list[Visitor]:
        """Let at most 500 clients arrive, and return when all of their requests are sent."""
        snapshots = await store_voices(self._client, count)
        sent = [asyncio.Event() for _ in snapshots]
        visitors = [
            Visitor(snapshot, asyncio.create_task(self._wait(snapshot.voice.voice_id, event)))
            for snapshot, event in zip(snapshots, sent, strict=True)
        ]
        for event in sent:
            await event.wait()
        return visitors

    async def _wait(self, voice_id: str, sent: asyncio.Event) -> tuple[str, float]:
        lines = (
            f"GET /api/v1/conversion/{voice_id} HTTP/1.1",
            "Host: localhost",
            f"X-Forwarded-For: {next(self._addresses)}",
            "Connection: close",
        )
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write("\r\n".join((*lines, "", "")).encode())
        finally:
            sent.set()
        try:
            answer = await reader.read()
            return answer.partition(b"\r\n")[0].decode(), time.time()
        finally:
            writer.close()


async def leave(visitors: Iterable[Visitor]) -> None:
    answers = [visitor.answer for visitor in visitors]
    for answer in answers:
        answer.cancel()
    await asyncio.gather(*answers, return_exceptions=True)


async def store_voices(client: RenewableClient, count: int) -> list[Snapshot]:
    converting = [converting_voice() for _ in range(count)]
    batch = client.batch()
    for voice in converting:
        reference = client.document(document_path(voice.voice_id))
        batch.create(reference, to_document(voice))
    written = await batch.commit()
    return [
        Snapshot(voice, result.update_time, result.update_time)
        for voice, result in zip(converting, written, strict=True)
    ]


async def finish(voices: VoiceStore, snapshot: Snapshot) -> float:
    voice_id = snapshot.voice.voice_id
    # `change` tries again if the emulator answers a write with the end of another stream.
    done = await change(voices, voice_id, lambda voice, _now: finished(voice), snapshot)
    if not isinstance(done.revision, datetime):
        raise TypeError(f"Firestore's revisions are times, not {done.revision!r}")
    return done.revision.timestamp()


def converting_voice() -> Voice:
    now = datetime.now(UTC)
    voice = voices_of.create(voices_of.new_voice_id(), "mei", Options(), now=now)
    upload = Input("uploads", upload_name(voice.voice_id), 1, "audio/webm", 50_000)
    return voices_of.lease(voices_of.queue(voice, now, upload), now, upload)


def finished(voice: Voice) -> Voice:
    now, name = datetime.now(UTC), result_name(voice.voice_id, voice.attempt, "wav")
    result = Result(
        bucket="results",
        object=name,
        # As long as a signed address.
        url=f"https://storage.example/results/{name}?{'x' * 700}",
        url_expires_at=now + timedelta(hours=1),
        content_type="audio/wav",
        bytes=150_000,
        seconds=3.0,
        sha256="ab" * 32,
        synthetic={"comment": "Synthetic speech", "character": voice.character},
    )
    timings = {"decode": 1.5, "network": 20.0}
    return voices_of.finish(voice, now, voice.attempt, result, seconds=3.0, timings=timings)


FIRST_ARRIVAL_SECONDS: Final = 15.0
NEXT_ARRIVAL_SECONDS: Final = 0.01
"""The time until the first client must wait, and the time for each other one."""

GROUP: Final = 50  # the number of clients that arrive at once
COUNTS_PAUSE_SECONDS: Final = 0.05
COUNTS_SECONDS: Final = 120.0  # the time that a busy process may take to return its counts
ANSWER_SECONDS: Final = 10.0  # the time that a client waits for the answer after its voice is done


class WaitersPlan(NamedTuple):
    """Numbers of waiting clients, and voices that become done meanwhile at a rate per second."""

    crowds: tuple[int, ...] = (100, 500, 1000, 5000)
    changes: int = 300
    rate: float = 25.0


QUICK: Final = WaitersPlan(crowds=(100,), changes=100)
WARM_UP: Final = WaitersPlan(crowds=(50,), changes=150, rate=50.0)

Answer = float | str
"""Milliseconds from a document's change to the whole answer, or the error that came instead."""


@dataclass(frozen=True, slots=True)
class MeasuredWaits:
    """The measurement with one number of clients; memory in megabytes."""

    clients: int
    waiting: int  # in time
    arrival_seconds: float  # until all waited
    arrival_cpu: float  # milliseconds of CPU time of the process for each arrival
    streams: int  # `Listen` streams of the process while all wait
    threads: int
    threads_before: int  # with a single client
    memory: float  # resident, while all wait
    growth: float  # beyond the memory with a single client
    answers: Sequence[Answer]  # for each voice that became done
    breaks: int  # of streams

    @property
    def has_failed(self) -> bool:
        return self.waiting < self.clients or bool(self.errors)

    @property
    def errors(self) -> str:
        counted = Counter(each for each in self.answers if isinstance(each, str))
        return ", ".join(f"{count} x {text}" for text, count in counted.items())

    def row(self) -> tuple[Cell, ...]:
        lags = [each for each in self.answers if isinstance(each, float)]
        return (
            *(self.clients, self.waiting, self.arrival_cpu, self.streams, self.threads),
            *(self.memory, self.growth),
            *(float(np.percentile(lags, each)) if lags else None for each in PERCENTILES),
            len(self.answers) - len(lags),
            self.breaks,
        )


COLUMNS: Final = (
    *("clients", "of them waiting", "CPU per arrival (ms)", "streams", "threads"),
    *("memory (MB)", "growth (MB)", *(f"lag p{each} (ms)" for each in PERCENTILES)),
    *("unanswered", "broken streams"),
)


async def run(*, quick: bool) -> Report:
    allow_many_files()
    plan = QUICK if quick else WaitersPlan()
    measured: list[MeasuredWaits] = []
    async with emulator("firestore") as address:
        # Java becomes faster while it runs.
        await measure(WARM_UP.crowds[0], WARM_UP, address)
        for clients in plan.crowds:
            print(f"{clients} clients ...", file=sys.stderr, flush=True)
            measured.append(await measure(clients, plan, address))
            if measured[-1].has_failed:
                break
    facts: dict[str, Cell] = {
        "voices done while the others wait": plan.changes,
        "of them per second": plan.rate,
    }
    for each in measured:
        facts[f"seconds until all wait ({each.clients} clients)"] = each.arrival_seconds
        if each.has_failed:
            facts[f"too much ({each.clients} clients)"] = each.errors or "not all of them waited"
    table = Table("Clients waiting on one process", COLUMNS, tuple(each.row() for each in measured))
    return Report("waiters", (table,), facts, ratios(measured))


def ratios(measured: Sequence[MeasuredWaits]) -> dict[str, float]:
    """Divide the need of the fewest clients by that of the process with one client.

    Raises:
        RuntimeError: even so few did not wait, so these are not the needs of waiting clients.
    """
    fewest = min(measured, key=lambda each: each.clients)
    if fewest.has_failed:
        raise RuntimeError(
            f"{fewest.clients} clients were too many: {fewest.waiting} of them waited,"
            f" errors: {fewest.errors or 'none'}"
        )
    return {
        "streams per client": fewest.streams / fewest.clients,
        "threads beside those with one client": fewest.threads / fewest.threads_before,
        "memory growth by the memory with one client": (
            fewest.growth / (fewest.memory - fewest.growth)
        ),
    }


def allow_many_files() -> None:
    """Let this process and its children open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def measure(clients: int, plan: WaitersPlan, firestore: str) -> MeasuredWaits:
    async with AsyncExitStack() as stack:
        stack.enter_context(changed_environment({FIRESTORE_VARIABLE: firestore}))
        api = await stack.enter_async_context(running_api(firestore))
        client = RenewableClient(project=names.PROJECT_ID)
        stack.callback(client.close)
        crowd, voices = Crowd(api.port, client), FirestoreVoices(client)
        await finish_and_time(voices, await crowd.arrive(1))
        memory_before, threads_before = api.megabytes(), api.process.num_threads()
        cpu, started = api.cpu_seconds(), time.perf_counter()
        visitors: list[Visitor] = []
        stack.push_async_callback(leave, visitors)
        waiting = await arrive(visitors, crowd, api, clients)
        arrival_seconds = time.perf_counter() - started
        cpu = api.cpu_seconds() - cpu
        memory, threads = api.megabytes(), api.process.num_threads()
        streams = (await api.counts())["streams"]
        answers = await finish_some(voices, crowd, visitors, plan)
        return MeasuredWaits(
            clients=clients,
            waiting=waiting,
            arrival_seconds=arrival_seconds,
            arrival_cpu=1000 * cpu / max(waiting, 1),
            streams=streams,
            threads=threads,
            threads_before=threads_before,
            memory=memory,
            growth=memory - memory_before,
            answers=answers,
            breaks=api.log.read_text().count('"listen_stream_broken"'),
        )


async def arrive(visitors: list[Visitor], crowd: Crowd, api: Api, clients: int) -> int:
    patience = FIRST_ARRIVAL_SECONDS + NEXT_ARRIVAL_SECONDS * clients
    deadline = time.perf_counter() + patience
    while True:
        visitors += await crowd.arrive(min(GROUP, clients - len(visitors)))
        waiting = await api.count_waiting(len(visitors), deadline)
        if waiting < len(visitors) or len(visitors) == clients:
            return waiting


async def finish_some(
    voices: VoiceStore, crowd: Crowd, visitors: list[Visitor], plan: WaitersPlan
) -> list[Answer]:
    """Finish voices at random times and return the answers; a new client replaces each."""
    loop, arrivals = asyncio.get_running_loop(), random.Random(1)
    answers: list[asyncio.Task[Answer]] = []
    comings: list[asyncio.Task[list[Visitor]]] = []
    due = loop.time()
    for _ in range(plan.changes):
        due += arrivals.expovariate(plan.rate)
        await asyncio.sleep(due - loop.time())
        if not visitors:  # on a busy machine all can leave before another one arrives
            pending = [coming for coming in comings if not coming.done()]
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        visitor = visitors.pop(arrivals.randrange(len(visitors)))
        answers.append(asyncio.create_task(finish_and_time(voices, [visitor])))
        comings.append(asyncio.create_task(crowd.arrive(1)))
        comings[-1].add_done_callback(lambda coming: visitors.extend(coming.result()))
    await asyncio.gather(*comings)
    return await asyncio.gather(*answers)


async def finish_and_time(voices: VoiceStore, visitors: Sequence[Visitor]) -> Answer:
    (visitor,) = visitors
    changed = await finish(voices, visitor.snapshot)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            status, arrived = await visitor.answer
    except TimeoutError:
        return f"nothing for {ANSWER_SECONDS:.0f} s"
    except OSError as error:
        return f"a broken connection: {error.strerror}"
    return 1000 * (arrived - changed) if " 200 " in status else status


class Api:
    def __init__(self, port: int, http: httpx.AsyncClient, pid: int, log: Path) -> None:
        self.port = port
        self.process = psutil.Process(pid)
        self.log = log
        self._http = http

    async def counts(self) -> dict[str, int]:
        counts: dict[str, int] = (await self._http.get("/counts")).raise_for_status().json()
        return counts

    async def count_waiting(self, clients: int, deadline: float) -> int:
        """Return the number of waiting clients, once so many wait or at the deadline."""
        while True:
            waiting = (await self.counts())["waiting"]
            if waiting >= clients or time.perf_counter() > deadline:
                return waiting
            await asyncio.sleep(COUNTS_PAUSE_SECONDS)

    def megabytes(self) -> float:
        return float(self.process.memory_info().rss / 1e6)

    def cpu_seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def running_api(firestore: str) -> AsyncIterator[Api]:
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key.json"
        make_key().write(key)
        # A busy process may close an idle connection just when the next request comes.
        limits = httpx.Limits(max_keepalive_connections=0)
        async with (
            running(command, api_environment(firestore, key), "/healthz") as server,
            httpx.AsyncClient(base_url=server.url, timeout=COUNTS_SECONDS, limits=limits) as http,
        ):
            pid = (await http.get("/counts")).raise_for_status().json()["pid"]
            yield Api(server.port, http, pid, server.log)


def command(port: int) -> list[str]:
    source = Path(__file__).with_name("waiters_api.py")
    return [
        *(sys.executable, "-m", "functions_framework", "--asgi", "--target=api"),
        *(f"--source={source}", "--host=127.0.0.1", f"--port={port}"),
    ]


def api_environment(firestore: str, key: Path) -> dict[str, str]:
    nowhere = f"http://{NOWHERE}"
    addresses = Addresses(nowhere, nowhere, nowhere, nowhere, nowhere, nowhere, firestore)
    environments = deployable_environments(CloudOptions(wait_seconds=3600), addresses, key)
    # Each client has an address of its own, which a proxy forwards.
    more = {"STORAGE_EMULATOR_HOST": nowhere, "TRUSTED_PROXIES": "1"}
    return environments["api"] | {FIRESTORE_VARIABLE: firestore} | more
