"""What ten honest visitors notice of one client that does its worst.

    nox -s abuse -- --seconds 30 [--attack NAME] [--write]

For every kind of abuse it measures how long the honest visitors wait from the upload to the end,
beside the same without abuse. The client comes from one address, or with a new address of one IPv6
/48 for each request; at `compat` each has a key of its own, but for long texts that keep to the
limits, which come with the honest clients' key. Exits with 1 if an honest voice was not done, if a
key got more than its limit, or if an attack was none: no request of it was let in, or none was
refused although it exceeds a limit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

# Before the client libraries: processes are started while gRPC's threads run.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from functions.api.settings import ApiSettings
from infra.local.cloud.local_cloud import find_emulators
from infra.local.commands.visitor import RecordingRequest, RequestRefusedError, Visitor
from infra.local.configuration import names
from shared.voices.voice import Status
from tests.integration.compat.conftest import compat_process
from tests.integration.served import SAMPLE
from tests.robustness.faults.cloud import FaultyCloud, faulty_cloud
from tests.robustness.measurement import greedy_clients
from tests.robustness.measurement.attacks import (
    ATTACKS,
    PLACES,
    Attacker,
    Waits,
    beside,
    endings,
)
from tests.robustness.measurement.soak_figures import percentile
from tools.benchmarks.report import Report, Table, with_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.robustness.measurement.attacks import Counts

README: Final = Path(__file__).parents[1] / "faults" / "README.md"

HONEST: Final = 10
PAUSE_SECONDS: Final = 4.0
"""How long an honest visitor waits before the next recording: nobody speaks faster."""

PROCESSES: Final = (1, 2)
"""How many of them `compat` has: one, and several that share their places."""

_MAKING: Final = {
    "OWN_CHARACTERS_PER_DAY": "20",
    "OWN_RECORDINGS_BUCKET": names.OWN_RECORDINGS_BUCKET,
    # No training comes so far: nothing that is sent is speech.
    "TRAINER_URL": "http://127.0.0.1:9",
}
"""Lets visitors make characters of their own voice, as docs/own-characters.md has it."""

_LAST_SECONDS: Final = 60.0
_SETTLING_SECONDS: Final = 5.0


@dataclass(frozen=True)
class AttackedService:
    cloud: FaultyCloud
    api: str


async def _visit_for_ever(stage: AttackedService, number: int, waits: Waits, end: float) -> None:
    # As Cloud Run passes the visitor's address on.
    address = {"X-Forwarded-For": f"198.51.100.{number}"}
    async with httpx.AsyncClient(headers=address, timeout=_LAST_SECONDS) as client:
        visitor = Visitor(client, stage.api, stage.cloud.voices)
        await asyncio.sleep(PAUSE_SECONDS * number / HONEST)
        while time.monotonic() < end:
            try:
                created = await visitor.create(RecordingRequest("mei", None, "wav"), "audio/webm")
                begin = time.monotonic()
                await visitor.upload(created, SAMPLE.read_bytes())
                voice = await stage.cloud.ended(created["voice_id"])
            except (RequestRefusedError, httpx.TransportError):
                waits.failed += 1
            else:
                waits.seconds.append(time.monotonic() - begin)
                waits.failed += voice.status is not Status.DONE
            await asyncio.sleep(PAUSE_SECONDS)


async def measure(stage: AttackedService, seconds: float) -> Waits:
    waits, end = Waits(), time.monotonic() + seconds
    await asyncio.gather(*(_visit_for_ever(stage, n, waits, end) for n in range(1, HONEST + 1)))
    return waits


async def measure_beside(
    stage: AttackedService, seconds: float, attack: str, place: str, number: int
) -> tuple[Waits, Counts]:
    attacker = Attacker(stage.api, PLACES[place](number))
    return await beside(attacker.flood(ATTACKS[attack]), measure(stage, seconds)), attacker.counts


@dataclass(frozen=True)
class Row:
    """What one attack has done.

    Attributes:
        most_let_in: how many of its requests a limit lets in; None without one.
    """

    attack: str
    place: str
    alone: Waits
    beside: Waits
    counts: Counts
    came_of_it: str
    most_let_in: int | None = None

    @property
    def kept_limit(self) -> bool:
        """Whether no more of its requests were let in than may be."""
        return self.most_let_in is None or self.counts.let_in <= self.most_let_in

    @property
    def was_real(self) -> bool:
        """Whether the attack got as far as the limits let it, and met them, if there are any."""
        meets_none = self.attack in greedy_clients.WITHIN_LIMITS
        return self.counts.let_in > 0 and (self.counts.refused > 0 or meets_none)

    def cells(self) -> tuple[str | float | int, ...]:
        without, with_it = (percentile(w.seconds, 95) for w in (self.alone, self.beside))
        counts = self.counts
        return (
            *(self.attack, self.place, without, with_it, with_it / without, self.beside.failed),
            *(counts.sent, counts.let_in, counts.refused, counts.most_open, self.came_of_it),
        )


COLUMNS: Final = (
    *("one client floods with", "from", "honest p95 alone (s)", "beside it (s)", "times"),
    *("honest voices not done", "requests sent", "let in", "refused", "most held open at once"),
    "its recordings ended in",
)


async def compare(seconds: float, attacks: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="voice-avatar-abuse-") as folder:
        async with AsyncExitStack() as stack:
            running = faulty_cloud(find_emulators(), Path(folder), as_deployed=True)
            cloud = await stack.enter_async_context(running)
            convert = cloud.front.default["convert"].removesuffix("/push")
            api = await cloud.start_function("api", CONVERT_URL=convert, **_limits(), **_MAKING)
            stage = AttackedService(cloud, api.url.rstrip("/"))
            await measure(stage, 5.0)
            for attack in attacks:
                # Right before, because the machine may be busier at another time.
                alone = await measure(stage, seconds)
                for place in PLACES:
                    beside, counts = await measure_beside(
                        stage, seconds, attack, place, len(rows) + 1
                    )
                    ends = await endings(cloud, counts.voices)
                    told = ", ".join(f"{end} {count}" for end, count in ends.most_common())
                    rows.append(Row(attack, place, alone, beside, counts, told or "-"))
                    _say(" | ".join(map(str, rows[-1].cells())))
                    await asyncio.sleep(_SETTLING_SECONDS)
    return rows


async def compare_clients(seconds: float, attacks: Sequence[str]) -> list[Row]:
    """Measure what a client of `compat` does that wants everything, likewise."""
    rows: list[Row] = []
    keys = ",".join(f"{name}={key}" for name, key in greedy_clients.KEYS.items())
    limit = greedy_clients.limit_of_keys(seconds)
    for attack, processes in product(attacks, PROCESSES):
        # A new service for each, so that nothing of the attack before is under way.
        settings, most = {"API_KEYS": keys, "WORKERS": str(processes)}, None
        if attack == greedy_clients.BEYOND_LIMIT:
            settings["KEY_CHARACTERS_PER_DAY"] = str(limit)
            most = greedy_clients.most_let_in(limit)
        with compat_process(HOST="127.0.0.1", **settings) as address:
            alone = await greedy_clients.measure(address, seconds)
            beside, counts = await greedy_clients.measure_beside(address, seconds, attack)
            whose = "the same" if attack in greedy_clients.WITHIN_LIMITS else "one"
            place = f"{whose} key of compat, {processes} processes"
            rows.append(Row(attack, place, alone, beside, counts, "-", most))
            _say(" | ".join(map(str, rows[-1].cells())))
    return rows


def _limits() -> dict[str, str]:
    limits = ("rate_limit_per_minute", "waiting_per_client", "trusted_proxies")
    fields = ApiSettings.model_fields
    return {name.upper(): str(fields[name].default) for name in limits}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="abuse", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="for each measurement")
    attacks = (*ATTACKS, *greedy_clients.ATTACKS)
    parser.add_argument("--attack", action="append", choices=attacks, help="only this one")
    text = "bring the figures into tests/robustness/faults/README.md"
    parser.add_argument("--write", action="store_true", help=text)
    wish = parser.parse_args(arguments)
    rows = asyncio.run(_compare_all(wish.seconds, wish.attack or attacks))
    table = Table("Honest visitors", COLUMNS, tuple(row.cells() for row in rows))
    report = Report("abuse", (table,))
    report.show()
    if not _is_well(rows):
        return 1
    if wish.write:
        README.write_text(with_figures(README.read_text(), report))
    return 0


async def _compare_all(seconds: float, attacks: Sequence[str]) -> list[Row]:
    on_api = [each for each in attacks if each in ATTACKS]
    on_compat = [each for each in attacks if each in greedy_clients.ATTACKS]
    rows = await compare(seconds, on_api) if on_api else []
    return rows + await compare_clients(seconds, on_compat)


def _is_well(rows: Sequence[Row]) -> bool:
    complaints = [
        *(f"{r.attack} from {r.place} was no attack" for r in rows if not r.was_real),
        *(
            f"{r.counts.let_in} requests were let in, and {r.most_let_in} may be: {r.attack}"
            for r in rows
            if not r.kept_limit
        ),
        *(
            f"{row.alone.failed + row.beside.failed} honest voices were not done: {row.attack}"
            for row in rows
            if row.alone.failed + row.beside.failed
        ),
    ]
    for complaint in complaints:
        _say(f"NOT WELL: {complaint}")
    return not complaints


def _say(sentence: str) -> None:
    print(sentence, flush=True)  # noqa: T201 - a command speaks to its user


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
