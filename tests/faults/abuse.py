"""What ten honest visitors notice of one client that does its worst.

    nox -s abuse -- --seconds 30 [--write]

For every kind of abuse it measures how long the honest visitors wait from the upload to the end,
beside the same without abuse. The client comes from one address, or with a new address of one IPv6
/48 for each request. Exits with 1 if an honest voice was not done.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

# Before the client libraries: processes are started while gRPC's threads run.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from benchmarks.measuring.pages import with_figures
from benchmarks.measuring.report import Report, Table
from infra.local.emulators import find_emulators
from infra.local.visitor import RefusedError, Visitor, Wish
from shared.voice import Status
from tests.faults.cloud import FaultyCloud, faulty_cloud
from tests.faults.soak_figures import percentile
from tests.hostile import files
from tests.integration.audio.recordings import hidden_opus
from tests.integration.served import SAMPLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

README: Final = Path(__file__).parent / "README.md"

HONEST: Final = 10
PAUSE_SECONDS: Final = 4.0
"""How long an honest visitor waits before the next recording: nobody speaks faster."""

AT_ONCE: Final = 8
"""How many requests the hostile client has under way."""

TIMES: Final = 2.0
"""How many times as long as without abuse an honest visitor may wait (p95)."""

_LAST_SECONDS: Final = 60.0
_FORM: Final = {"content-type": "multipart/form-data; boundary=b", "content-length": "8000000"}
_NETWORK: Final = ipaddress.IPv6Network("2001:db8:7::/48")


@dataclass
class Waits:
    """How long honest visitors waited, and how many were refused or got no result."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0


@dataclass
class Answers:
    """How many requests of the hostile client were let in, and how many refused."""

    accepted: int = 0
    refused: int = 0

    def count(self, status: int) -> None:
        if status < 400:
            self.accepted += 1
        else:
            self.refused += 1


@dataclass(frozen=True)
class Stage:
    """The service under attack.

    Attributes:
        cloud: its processes.
        api: the address of the api, which believes one proxy.
    """

    cloud: FaultyCloud
    api: str

    def client(self, address: str) -> httpx.AsyncClient:
        """Return a client that comes from an address, as Cloud Run passes it on."""
        return httpx.AsyncClient(headers={"X-Forwarded-For": address}, timeout=_LAST_SECONDS)


async def send_costly_files(stage: Stage, client: httpx.AsyncClient, answers: Answers) -> None:
    """Create a voice and upload one of the files whose decoding costs most."""
    created = await client.post(f"{stage.api}/api/v1/voices", json={"content_type": "audio/webm"})
    answers.count(created.status_code)
    if created.is_success:
        upload = created.json()["upload"]
        data = random.choice(COSTLY)  # noqa: S311 - no secrets
        await client.put(upload["url"], headers=upload["headers"], content=data)


async def create_voices(stage: Stage, client: httpx.AsyncClient, answers: Answers) -> None:
    """Create a voice and never use it."""
    created = await client.post(f"{stage.api}/api/v1/voices")
    answers.count(created.status_code)


async def wait_for_nothing(stage: Stage, client: httpx.AsyncClient, answers: Answers) -> None:
    """Wait for a voice that nobody uploads a recording for."""
    created = await client.post(f"{stage.api}/api/v1/voices")
    if not created.is_success:
        answers.count(created.status_code)
        return
    waited = await client.get(f"{stage.api}/api/v1/conversion/{created.json()['voice_id']}")
    answers.count(200 if waited.status_code == 504 else waited.status_code)


async def stall_uploads(stage: Stage, client: httpx.AsyncClient, answers: Answers) -> None:
    """Begin to send a recording of 8 MB through the api, and send no more of it."""

    async def body() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.webm"\r\n\r\n'
        await asyncio.sleep(_LAST_SECONDS)

    answer = await client.put(f"{stage.api}/api/v1/voices", headers=_FORM, content=body())
    answers.count(answer.status_code)


ATTACKS: Final[dict[str, Any]] = {
    "costly files": send_costly_files,
    "creates": create_voices,
    "waits": wait_for_nothing,
    "stalled uploads": stall_uploads,
}

COSTLY: Final = (
    files.ogg_opus(files.opus_head(channels=255, family=255), files.opus_tags(), packets=1),
    files.many_boxes(b"moof", 100_000),
    hidden_opus(10_000),
)
"""Among the costliest files that `tests.hostile.costs` has found, and one that hides its audio."""


def one_address() -> str:
    return "203.0.113.7"


def new_address() -> str:
    """Return a new address of the network for each request."""
    return str(_NETWORK[random.getrandbits(80)])


async def _attack_for_ever(
    stage: Stage, attack: Any, address: Callable[[], str], answers: Answers
) -> None:
    async with stage.client(one_address()) as client:
        while True:
            client.headers["X-Forwarded-For"] = address()
            try:
                await attack(stage, client, answers)
            except httpx.TransportError:
                answers.refused += 1
            # A client that is refused at once would only heat this machine, which it shares.
            await asyncio.sleep(0.02)


async def _visit_for_ever(stage: Stage, number: int, waits: Waits, end: float) -> None:
    async with stage.client(f"198.51.100.{number}") as client:
        visitor = Visitor(client, stage.api, stage.cloud.voices)
        await asyncio.sleep(PAUSE_SECONDS * number / HONEST)
        while time.monotonic() < end:
            try:
                created = await visitor.create(Wish("mei", None, "wav"), "audio/webm")
                begin = time.monotonic()
                await visitor.upload(created, SAMPLE.read_bytes())
                voice = await stage.cloud.ended(created["voice_id"])
            except (RefusedError, httpx.TransportError):
                waits.failed += 1
            else:
                waits.seconds.append(time.monotonic() - begin)
                waits.failed += voice.status is not Status.DONE
            await asyncio.sleep(PAUSE_SECONDS)


async def measure(
    stage: Stage, seconds: float, attack: Any = None, address: Callable[[], str] = one_address
) -> tuple[Waits, Answers]:
    """Let honest visitors come for so long, beside an attack if there is one."""
    waits, answers, end = Waits(), Answers(), time.monotonic() + seconds
    count = AT_ONCE if attack else 0
    hostile = [
        asyncio.create_task(_attack_for_ever(stage, attack, address, answers)) for _ in range(count)
    ]
    try:
        await asyncio.gather(*(_visit_for_ever(stage, n, waits, end) for n in range(1, HONEST + 1)))
    finally:
        for task in hostile:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*hostile, return_exceptions=True)
    return waits, answers


async def compare(seconds: float) -> tuple[Report, int]:
    """Measure every attack, each beside a run without one; return how many honest voices failed."""
    rows: list[tuple[str | float | int, ...]] = []
    failed = 0
    with tempfile.TemporaryDirectory(prefix="voice-avatar-abuse-") as folder:
        async with AsyncExitStack() as stack:
            cloud = await stack.enter_async_context(faulty_cloud(find_emulators(), Path(folder)))
            convert = cloud.front.default["convert"].removesuffix("/push")
            limits = {"TRUSTED_PROXIES": "1", "RATE_LIMIT_PER_MINUTE": "120"}
            limits["WAITING_PER_CLIENT"] = "50"
            api = await cloud.start_function("api", CONVERT_URL=convert, **limits)
            stage = Stage(cloud, api.url.rstrip("/"))
            await measure(stage, 5.0)
            for name, attack in ATTACKS.items():
                for place, address in (("one address", one_address), ("one /48", new_address)):
                    # Right before, because the machine may be busier at another time.
                    alone, _ = await measure(stage, seconds)
                    beside, answers = await measure(stage, seconds, attack, address)
                    failed += alone.failed + beside.failed
                    without, with_it = (percentile(w.seconds, 95) for w in (alone, beside))
                    counts = (answers.accepted, answers.refused)
                    rows.append(
                        (name, place, without, with_it, with_it / without, beside.failed, *counts)
                    )
                    _say(f"{name}, {place}: {without:.2f} s, {with_it:.2f} s, {counts}")
    columns = (
        *("one client floods with", "from", "honest p95 alone (s)", "beside it (s)", "times"),
        *("honest voices not done", "its requests let in", "refused"),
    )
    return Report("abuse", (Table("Ten honest visitors", columns, tuple(rows)),)), failed


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="abuse", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="for each measurement")
    text = "bring the figures into tests/faults/README.md"
    parser.add_argument("--write", action="store_true", help=text)
    wish = parser.parse_args(arguments)
    report, failed = asyncio.run(compare(wish.seconds))
    report.show()
    if failed:
        _say(f"NOT WELL: {failed} honest voices were not done")
        return 1
    if wish.write:
        README.write_text(with_figures(README.read_text(), report))
    return 0


def _say(sentence: str) -> None:
    print(sentence, flush=True)  # noqa: T201 - a command speaks to its user


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
