"""The processes and conversions that a container can run, from the limits of its cgroup.

The host's numbers would mislead: a container with two CPUs may run on a machine with sixty.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from pydantic import Field

from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.runtime.settings import EnvironmentSettings, Switch
from shared.speech.graphs.sessions import Provider

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.speech.decoding.recording import DecodeLimits

MIB: Final = 1 << 20

# Memory of one process with its characters and the parent of its decoding processes. Measured: with
# one conversion 210 MB for 10 s of speech, 300 MB for 60 s; the content encoder that characters
# share takes 104 MB more.
PROCESS_BYTES: Final = 285 * MIB
# What Kokoro adds to a process. Measured: 423 MB while it loads, 376 MB after some texts.
KOKORO_BYTES: Final = 404 * MIB
# Measured for each conversion at once: 65 MB with 60 s of speech, 40 MB with 10 s.
CONVERSION_BYTES: Final = 75 * MIB
# The networks of characters from the bucket are large. Measured: 480 MB with 10 s of speech and an
# RVC voice of 40 kHz, which takes no more at once.
FETCHED_CONVERSION_BYTES: Final = 640 * MIB
# Nine tenths of a conversion run without the interpreter's lock or in the decoder's process, so the
# lock is free for about this many conversions at once.
CPUS_PER_PROCESS: Final = 4
# One waits for Firestore, a bucket or the decoder's process while the other computes. With one
# conversion per CPU, a tenth of the CPUs' time is lost even with every service on the same machine
# (docs/architecture.md, decision 22).
CONVERSIONS_PER_CPU: Final = 2

# Work after which one of several processes is replaced, so that no leak grows for ever. Requests do
# not count: anybody can send them, also without a key.
WORN_AFTER_SECONDS: Final = 3600.0

_UNLIMITED: Final = 1 << 60


class Resources(NamedTuple):
    cpus: float
    memory_bytes: int | None  # None without a limit


class ProcessPlan(NamedTuple):
    workers: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes of one process, and of each conversion at once."""

    process: int = PROCESS_BYTES
    conversion: int = CONVERSION_BYTES


def memory_needs(
    limits: DecodeLimits, fetched: int | None = None, *, has_kokoro: bool = False
) -> MemoryNeeds:
    """Return the memory with as many hostile recordings as are decoded at once.

    Terraform calculates the same in `infra/terraform/convert.tf`; a test compares the two.
    `fetched` are the bytes of the bucket's characters in one process, and of one more's load.
    """
    conversion = max(CONVERSION_BYTES, limits.peak_bytes)
    process = PROCESS_BYTES + KOKORO_BYTES * has_kokoro
    if fetched is None:
        return MemoryNeeds(process, conversion)
    return MemoryNeeds(process + fetched, max(conversion, FETCHED_CONVERSION_BYTES))


def plan(
    resources: Resources, needs: MemoryNeeds = MemoryNeeds(), *, workers: int | None = None
) -> ProcessPlan:
    """Plan enough conversions for every CPU, but no more than fit into the memory.

    Several processes leave memory for one more: a worn one ends its work beside the new one. One
    process starts soonest, loads the characters only once, and receives every message, even if all
    come through one connection.
    """
    cpus = max(1, round(resources.cpus))
    processes = workers or math.ceil(cpus / CPUS_PER_PROCESS)
    wanted = CONVERSIONS_PER_CPU * cpus
    if resources.memory_bytes is None:
        return ProcessPlan(processes, max(wanted, processes))
    if workers is None:
        one_more = needs.process if processes > 1 else 0
        fitting = (resources.memory_bytes - one_more) // (needs.process + needs.conversion)
        processes = max(1, min(processes, fitting))
    one_more = needs.process if processes > 1 else 0
    left = resources.memory_bytes - processes * needs.process - one_more
    most = max(0, left) // needs.conversion
    return ProcessPlan(processes, max(processes, min(wanted, most)))


def read_resources(root: Path = Path("/")) -> Resources:
    """Read the limits of this process's cgroup and its parents (both versions) and affinity."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = float(len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1)
    memory = _UNLIMITED
    for folder in _cgroup_folders(root):
        cpus = min(cpus, _cpu_quota(folder))
        limit = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
        if limit.isdecimal():
            memory = min(memory, int(limit))
    return Resources(cpus, None if memory >= _UNLIMITED else memory)


def _cgroup_folders(root: Path) -> Iterable[Path]:
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and not {"cpu", "memory"} & set(controllers.split(",")):
            continue
        own = mount / controllers / path.lstrip("/")
        yield own
        # In a container this may be the path on the host, while the container's own cgroup is
        # mounted at the top.
        yield from (above for above in own.parents if above.is_relative_to(mount))


def _cpu_quota(folder: Path) -> float:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota = _text(folder / "cpu.cfs_quota_us")
        period = _text(folder / "cpu.cfs_period_us")
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return math.inf
    return int(quota) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class ServingSettings(EnvironmentSettings):
    """Settings of a server with one or several processes.

    Attributes:
        provider: where networks run; `cuda` needs a GPU and the image with CUDA.
        timeout: seconds without a heartbeat after which one of several processes is replaced.
        load_timeout: seconds in which a new one of several processes must be ready.
        graceful_timeout: seconds that a process may take to stop; Cloud Run kills an instance ten
            seconds after SIGTERM.
        keepalive: seconds for which an idle connection is kept open.
        kokoro: off to speak typed text in Japanese alone, even where the packages of Kokoro are.
        kokoro_dir: the folder of the packages; None finds them in the Python environment.
        max_work_seconds: seconds of converting or speaking after which a process is replaced; 0 for
            never, which is the default for a single process.
        max_bundle_bytes: the most bytes that the graphs of one character bundle have together.
    """

    # Before those whose defaults may be planned from them.
    kokoro: Switch = Switch.ON
    kokoro_dir: Path | None = None
    max_bundle_bytes: Annotated[int, Field(ge=1)] = MAX_BUNDLE_BYTES
    host: str = "0.0.0.0"  # noqa: S104 - a container must be reachable from outside
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    workers: Annotated[int, Field(ge=1, le=32)] = 1
    concurrency: Annotated[int, Field(ge=1, le=64)] = 1
    backlog: Annotated[int, Field(ge=0, le=1000)] = 32
    threads: Annotated[int, Field(ge=1, le=16)] = 1
    provider: Provider = Provider.CPU
    timeout: Annotated[int, Field(ge=5, le=600)] = 30
    load_timeout: Annotated[int, Field(ge=5, le=3600)] = 300
    graceful_timeout: Annotated[int, Field(ge=1, le=600)] = 8
    keepalive: Annotated[float, Field(ge=1, le=3600)] = 75.0
    max_work_seconds: Annotated[float, Field(ge=0, le=10_000_000)] = Field(
        default_factory=lambda planned: WORN_AFTER_SECONDS * (planned.get("workers", 1) > 1)
    )
    characters_dir: Path = Path(__file__).parents[2] / "characters"

    @property
    def kokoro_packages(self) -> Path | None:
        # A folder without them switches Kokoro off.
        return self.kokoro_dir if self.kokoro is Switch.ON else Path(os.devnull)

    @property
    def is_alone(self) -> bool:
        return self.processes == 1 and self.max_work_seconds == 0

    @property
    def processes(self) -> int:
        # Each must have something to do.
        return min(self.workers, self.concurrency)

    def share(self, number: int) -> int:
        """Return one process's share of a number for all processes."""
        return math.ceil(number / self.processes)
