"""A steady load of real conversions while conversion containers are killed and restarted.

`python -m tests.faults.soak --minutes 10 --kill-every 20`; it ends with a table, and with exit code
1 if a voice was lost, has not exactly one result, failed, or if memory has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

# Before the client libraries: processes are started while gRPC's threads run.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from infra.local.emulators import find_emulators
from shared.voice import Status
from tests.faults.cloud import FaultyCloud, Instance, faulty_cloud

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.voice import Voice

LAST_VOICE_SECONDS = 120.0
"""How long is waited, after the load has ended, for the last voice."""

WARM_UP_SHARE = 0.25
"""Memory is compared from here on: buffers and arenas have their size by then."""

GROWTH_ALLOWED = 1.2
GROWTH_ALLOWED_BYTES = 16 << 20


@dataclass
class Soak:
    """One run.

    Args:
        cloud: where the voices are converted; its first container is never killed.
        victim: the container that is killed and replaced.
        voices_per_second: the load.
    """

    cloud: FaultyCloud
    victim: Instance
    voices_per_second: float
    kills: int = 0
    interrupted: list[asyncio.Task[None]] = field(default_factory=list)
    waits: dict[str, float] = field(default_factory=dict)
    ended: dict[str, Voice] = field(default_factory=dict)
    voices: list[str] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)

    async def run(self, seconds: float, kill_every: float) -> None:
        """Load, kill and measure for so long; then wait for the last voices."""
        visits: set[asyncio.Task[None]] = set()
        killing = asyncio.create_task(self._kill_for_ever(kill_every))
        end, begin = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            visits.add(asyncio.create_task(self._visit()))
            if time.monotonic() - begin > WARM_UP_SHARE * seconds:
                self.memory.append(self._memory())
            await asyncio.sleep(1 / self.voices_per_second)
        killing.cancel()
        visits.update(self.interrupted)
        await asyncio.wait(visits, timeout=LAST_VOICE_SECONDS)
        for visit in visits:
            visit.cancel()
        await asyncio.gather(killing, *visits, return_exceptions=True)
        self.memory.append(self._memory())

    async def _visit(self, interrupted: str | None = None) -> None:
        voice_id = interrupted or await self.cloud.create_voice()
        self.voices.append(voice_id)
        if interrupted or len(self.voices) % 2:
            self.cloud.front.pin(voice_id, self.victim.url)
        begin = time.monotonic()
        await self.cloud.upload(voice_id)
        self.ended[voice_id] = await self.cloud.ended(voice_id)
        self.waits[voice_id] = time.monotonic() - begin
        await self.cloud.front.acknowledged(voice_id)

    async def _kill_for_ever(self, kill_every: float) -> None:
        while True:
            await asyncio.sleep(kill_every)
            victim, voice_id = self.victim, await self.cloud.create_voice()
            # Each kill interrupts a conversion: this one, and whatever else is under way.
            self.cloud.barriers.hold(voice_id, "converting")
            self.interrupted.append(asyncio.create_task(self._visit(voice_id)))
            await self.cloud.barriers.arrival(voice_id, "converting")
            victim.process.send_signal(signal.SIGKILL)
            await victim.process.wait()
            self.kills += 1
            self.cloud.barriers.release(voice_id, "converting")
            self.victim = await self.cloud.start_convert()

    def _memory(self) -> dict[str, int]:
        """Return the resident bytes of every process that lives from beginning to end."""
        processes = self.cloud.supervisor.processes
        lasting = {"convert-1", "on_upload", "dead_letter", "storage"}
        return {
            process.name: psutil.Process(process.pid).memory_info().rss
            for process in processes
            if process.name.rpartition("-")[0] in lasting or process.name in lasting
        }

    async def doubled(self) -> list[str]:
        """Return the finished voices that have not exactly the one result they name."""
        wrong = []
        for voice_id, voice in self.ended.items():
            expected = [voice.result.object] if voice.result else []
            if await self.cloud.results(voice_id) != expected:
                wrong.append(voice_id)
        return wrong

    def grown(self) -> list[str]:
        """Return the processes whose memory is not flat."""
        first, last = self.memory[0], self.memory[-1]
        return [
            name
            for name, size in first.items()
            if last[name] > max(size * GROWTH_ALLOWED, size + GROWTH_ALLOWED_BYTES)
        ]

    async def report(self) -> tuple[Table, bool]:
        """Return the table of this run, and whether all is well."""
        codes = Counter(v.error.code.value for v in self.ended.values() if v.error)
        lost = [voice_id for voice_id in self.voices if voice_id not in self.ended]
        doubled, grown = await self.doubled(), self.grown()
        done = sum(voice.status is Status.DONE for voice in self.ended.values())
        waits = np.percentile(list(self.waits.values()) or [0.0], [50, 95, 99])
        table = Table("what", "figure", title="soak")
        rows = {
            "voices": len(self.voices),
            "done": done,
            "failed by code": ", ".join(f"{k} {n}" for k, n in codes.items()) or "none",
            "lost": len(lost),
            "doubled": len(doubled),
            "containers killed": self.kills,
            "taken over": sum(voice.attempt > 1 for voice in self.ended.values()),
            "wait p50 / p95 / p99 (s)": " / ".join(f"{wait:.1f}" for wait in waits),
        }
        for name, size in self.memory[0].items():
            rows[f"memory of {name} (MB)"] = (
                f"{size / 1e6:.0f} -> {self.memory[-1][name] / 1e6:.0f}"
            )
        for what, figure in rows.items():
            table.add_row(what, str(figure))
        return table, not (lost or doubled or grown or codes)


async def soak(minutes: float, kill_every: float, voices_per_second: float) -> bool:
    """Run once and print the table; return whether all is well."""
    with tempfile.TemporaryDirectory(prefix="voice-avatar-soak-") as folder:
        async with faulty_cloud(find_emulators(), Path(folder)) as cloud:
            run = Soak(cloud, await cloud.start_convert(), voices_per_second)
            await run.run(minutes * 60, kill_every)
            table, is_well = await run.report()
    Console().print(table)
    return is_well


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds between two kills")
    parser.add_argument("--voices-per-second", type=float, default=1.0)
    wish = parser.parse_args(arguments)
    return int(not asyncio.run(soak(wish.minutes, wish.kill_every, wish.voices_per_second)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
