"""A steady load of real conversions while conversion containers are killed and restarted.

`nox -s soak -- --minutes 10 --kill-every 20`; 0 kills nothing, and requires that hardly any push is
refused; with `--leaks` voices drop, with `--folders N` a
folder is converted again and again; it ends with tables, and with exit code 1 if a voice
was lost, failed, has not exactly one result, or if memory has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from websockets.exceptions import WebSocketException

# Before the client libraries: processes are started while gRPC's threads run.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import shutil
from contextlib import redirect_stdout
from io import StringIO
from typing import Final

from infra.local.cloud.local_cloud import find_emulators
from infra.local.commands.batch import BatchJob, BatchReport, convert_all, plan_jobs, run_batch
from infra.local.commands.live import LiveVisitor
from infra.local.commands.visitor import (
    RecordingRequest,
    RequestRefusedError,
    TextRequest,
    Visitor,
    open_client,
)
from infra.local.configuration.options import CloudOptions
from tests.integration.served import SAMPLE
from tests.robustness.faults.cloud import FaultyCloud, Instance, faulty_cloud
from tests.robustness.measurement.fault_table import PAGE, with_faults
from tests.robustness.measurement.leaks import find_leaks
from tests.robustness.measurement.soak_figures import Figures, Visit, percentile
from tools.benchmarks.report import Report, Table, with_figures

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence


FILES: Final = 6
PATIENCE_SECONDS: Final = 300.0
"""After which a conversion of a folder counts as one that stands still."""


async def convert_folder(folder: Path) -> str:
    """Convert the recordings of a folder; return what went wrong, or nothing."""
    output = folder.with_name("out")
    jobs = plan_jobs([folder], output, ".wav", "mei")
    options = CloudOptions(folder=folder.with_name("local"))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # The table of each folder would be thousands of lines.
            with redirect_stdout(StringIO()):
                reports = await run_batch(
                    options, jobs, RecordingRequest("mei"), overwrite=True, embedded=None
                )
    except TimeoutError:
        return "it stood still"
    failed = [str(report.error) for report in reports if report.error is not None]
    files = len(list(output.glob("*.wav")))
    if failed or files != FILES:
        return f"{files} of {FILES} files, {failed}"
    shutil.rmtree(output)
    return ""


def convert_folders(times: int) -> tuple[Report, list[str]]:
    seconds, complaints = [], []
    with tempfile.TemporaryDirectory(prefix="voice-avatar-folders-") as name:
        folder = Path(name) / "in"
        folder.mkdir()
        for number in range(FILES):
            shutil.copy(SAMPLE, folder / f"{number}.webm")
        for number in range(times):
            begin = time.monotonic()
            if wrong := asyncio.run(convert_folder(folder)):
                complaints.append(f"conversion {number + 1}: {wrong}")
            seconds.append(time.monotonic() - begin)
    rows = (
        ("folders converted, one after the other", len(seconds)),
        ("recordings in each", FILES),
        ("not all recordings converted, or stood still", len(complaints)),
        ("seconds for one, p50", percentile(seconds, 50)),
        ("longest", max(seconds, default=0.0)),
    )
    return Report("folders", (Table("Folders", ("what", "figure"), rows),)), complaints


LAST_VOICE_SECONDS = 120.0
"""How long to wait for the last voice after the load has ended."""

TEXT_EVERY = 4
"""Every voice of this number is made from a text."""

LIVE = frozenset({2, 3})
"""Of every `TEXT_EVERY` voices these go to `live`: half of all."""

BATCH_EVERY = 20
"""After so many voices somebody converts a folder."""

BATCH = 4
"""How many recordings it has."""

TEXT = "今日はいい天気ですね。明日も晴れるそうです。"

_NEVER_SECONDS = 86_400.0

WARM_UP_SHARE = 0.25
"""Memory is measured from here on, when buffers and arenas have reached their size."""

NOT_OURS = {"firestore", "pubsub"}
"""Google's emulators, which keep everything in memory."""


@dataclass
class Soak:
    """One run.

    Args:
        live: the instance of `live` that is killed and replaced.
    """

    cloud: FaultyCloud
    visitor: Visitor
    victim: Instance
    live: Instance
    voices_per_second: float
    kills: int = 0
    visits: list[Visit] = field(default_factory=list)
    memory: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._lasting = [
            process
            for process in self.cloud.supervisor.processes
            if process not in {self.victim.process, self.live.process}
            and process.name not in NOT_OURS
        ]

    async def run(self, seconds: float, kill_every: float) -> Figures:
        """Load, kill and measure for this long; then wait for the last voices."""
        killing = asyncio.create_task(self._kill_for_ever(kill_every))
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds and not killing.done():
            self._spawn(self._visit())
            if passed > WARM_UP_SHARE * seconds:
                self._measure_memory()
            await asyncio.sleep(1 / self.voices_per_second)
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing
        await self._finish()
        kills = self.kills if kill_every else None
        pushes = [delivery.status for delivery in self.cloud.front.deliveries]
        return Figures(self.visits, kills, self.memory, self._false_takeovers(), pushes)

    async def _visit(self) -> None:
        if len(self.visits) % BATCH_EVERY == BATCH_EVERY - 1:
            await self._convert_folder()
            return
        number = len(self.visits) % TEXT_EVERY
        visit, created = await self._create(is_text=number == 0)
        if number in LIVE:
            await self._go_live(visit, created)
            return
        if number:
            self.cloud.front.pin(created["voice_id"], self.victim.url)
        await self._go_through(visit, created)

    async def _kill_for_ever(self, kill_every: float) -> None:
        while True:
            await asyncio.sleep(kill_every or _NEVER_SECONDS)
            await (self._kill_live() if self.kills % 2 else self._kill_converter())
            self.kills += 1

    async def _kill_live(self) -> None:
        visit, created = await self._create()
        victim, voice_id = self.live, created["voice_id"]
        self.cloud.barriers.hold(voice_id, "leased")
        self._spawn(self._go_live(visit, created))
        await self.cloud.barriers.arrival(voice_id, "leased")
        victim.process.send_signal(signal.SIGKILL)
        await victim.process.wait()
        self.cloud.barriers.release(voice_id, "leased")
        self.live = await self.cloud.start_live()

    async def _kill_converter(self) -> None:
        visit, created = await self._create()
        victim, voice_id = self.victim, created["voice_id"]
        # Each kill interrupts this conversion and all others in progress.
        self.cloud.front.pin(voice_id, victim.url)
        self.cloud.barriers.hold(voice_id, "converting")
        self._spawn(self._go_through(visit, created))
        await self.cloud.barriers.arrival(voice_id, "converting")
        victim.process.send_signal(signal.SIGKILL)
        await victim.process.wait()
        self.cloud.barriers.release(voice_id, "converting")
        self.victim = await self.cloud.start_convert()

    async def _create(self, *, is_text: bool = False) -> tuple[Visit, dict[str, Any]]:
        # Counted before it can fail.
        visit = Visit()
        self.visits.append(visit)
        if is_text:
            created = await self.visitor.create_text(TextRequest(TEXT, "mei"))
        else:
            created = await self.visitor.create(RecordingRequest("mei", None, "wav"), "audio/webm")
        visit.voice_id = created["voice_id"]
        return visit, created

    async def _go_through(self, visit: Visit, created: dict[str, Any]) -> None:
        voice_id, begin = created["voice_id"], time.monotonic()
        if created["upload"] is not None:
            await self.visitor.upload(created, SAMPLE.read_bytes())
        visit.voice = await self.cloud.ended(voice_id)
        visit.wait_seconds = time.monotonic() - begin
        await self.cloud.front.acknowledged(voice_id)
        visit.is_settled = True

    async def _convert_folder(self) -> None:
        """Convert a folder as `nox -s convert -- FOLDER` does."""
        visits = [Visit() for _ in range(BATCH)]
        self.visits += visits
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="voice-avatar-batch-") as folder:
            reports = [
                BatchReport(BatchJob(SAMPLE, Path(folder) / f"{number}.wav"))
                for number in range(BATCH)
            ]
            await convert_all(
                self.visitor,
                reports,
                RecordingRequest("mei", None, "wav"),
                overwrite=True,
                at_once=BATCH,
                started=lambda _report: None,
                ended=lambda _report: None,
            )
            for visit, report in zip(visits, reports, strict=True):
                if report.voice is None or not report.job.target.exists():
                    _say(f"a recording of a folder was not converted: {report.error}")
                    continue
                visit.voice_id = report.voice.voice_id
                visit.voice = report.voice
                visit.wait_seconds = time.monotonic() - begin
                await self.cloud.front.acknowledged(report.voice.voice_id)
                visit.is_settled = True

    async def _go_live(self, visit: Visit, created: dict[str, Any]) -> None:
        voice_id, begin = created["voice_id"], time.monotonic()
        if not await self._is_converted_live(voice_id):
            # As a page does: what is stored already is refused, and all the better.
            with suppress(RequestRefusedError):
                await self.visitor.upload(created, SAMPLE.read_bytes())
        visit.voice = await self.cloud.ended(voice_id)
        visit.wait_seconds = time.monotonic() - begin
        await self.cloud.front.acknowledged(voice_id, "on_upload")
        await self.cloud.front.acknowledged(voice_id, messages=0)
        visit.is_settled = True

    async def _is_converted_live(self, voice_id: str) -> bool:
        try:
            async with LiveVisitor(self.live.url, self.cloud.ticket(voice_id)) as speaking:
                await speaking.speak(SAMPLE.read_bytes())
                last = await speaking.end()
        except (OSError, WebSocketException):
            return False
        return last is not None and last["type"] == "done"

    async def _finish(self) -> None:
        """Wait for the last voices and list the results in the bucket for each."""
        _, late = await asyncio.wait(self._running, timeout=LAST_VOICE_SECONDS)
        for task in late:
            task.cancel()
        for ended in await asyncio.gather(*self._running, return_exceptions=True):
            if isinstance(ended, Exception):
                _say(f"a visit ended with {ended!r}")
        for visit in self.visits:
            if visit.voice_id is not None:
                visit.results = await self.cloud.results(visit.voice_id)

    def _false_takeovers(self) -> int:
        """Count the leases that a worker has lost while it lived; a dead one logs nothing."""
        logs = [*self.cloud.logs.glob("convert-*.log"), *self.cloud.logs.glob("live-*.log")]
        return sum(log.read_text().count('"event": "lease_lost"') for log in logs)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._running.add(asyncio.create_task(work))

    def _measure_memory(self) -> None:
        for process in self._lasting:
            self.memory[process.name].append(resident_bytes(process.pid))


def resident_bytes(pid: int) -> int:
    process = psutil.Process(pid)
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        # A decoding process may end at any moment.
        with suppress(psutil.NoSuchProcess):
            total += child.memory_info().rss
    return int(total)


async def soak(wish: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory(prefix="voice-avatar-soak-") as folder:
        async with AsyncExitStack() as stack:
            cloud = await stack.enter_async_context(faulty_cloud(find_emulators(), Path(folder)))
            client = await stack.enter_async_context(open_client())
            convert = cloud.front.default["convert"].removesuffix("/push")
            api = await cloud.start_function("api", CONVERT_URL=convert)
            visitor = Visitor(client, api.url.rstrip("/"), cloud.voices)
            victim = await cloud.start_convert()
            run = Soak(cloud, visitor, victim, await cloud.start_live(), wish.voices_per_second)
            return await run.run(wish.minutes * 60, wish.kill_every)


def main(arguments: Sequence[str]) -> int:
    wish = _parse(arguments)
    if wish.faults:
        PAGE.write_text(with_faults(PAGE.read_text()))
        return 0
    if wish.leaks:
        report, complaints = asyncio.run(find_leaks(wish.drops, wish.minutes))
    elif wish.folders:
        report, complaints = convert_folders(wish.folders)
    else:
        figures = asyncio.run(soak(wish))
        report, complaints = figures.report(), figures.complaints()
    if complaints:
        report = replace(report, facts={**report.facts, "NOT WELL": "; ".join(complaints)})
    report.show()
    if wish.write:
        PAGE.write_text(with_figures(PAGE.read_text(), report))
    return int(bool(complaints))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds; 0 never")
    parser.add_argument("--voices-per-second", type=float, default=1.0)
    text = "let voices drop instead, then load for --minutes, and see what is left of them"
    parser.add_argument("--leaks", action="store_true", help=text)
    parser.add_argument("--drops", type=int, default=5000, help="how many voices drop")
    text = "convert a folder so many times instead"
    parser.add_argument("--folders", type=int, default=0, help=text)
    text = "write the tables of faults of that page from faults.toml, and nothing else"
    parser.add_argument("--faults", action="store_true", help=text)
    text = "bring the figures into tests/robustness/faults/README.md, and what is not well"
    parser.add_argument("--write", action="store_true", help=text)
    return parser.parse_args(arguments)


def _say(sentence: str) -> None:
    print(sentence, flush=True)  # noqa: T201 - a command speaks to its user


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
