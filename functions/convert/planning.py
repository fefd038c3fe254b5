"""How many processes and conversions suit a container: from what its cgroup lets it use.

The host's numbers mislead: a container with two CPUs may run on a machine with sixty.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB: Final = 1 << 20

PROCESS_BYTES: Final = 250 * MIB
"""What one process needs with its characters, its decoder and one conversion.

Measured are 210 MB at 10 s of speech and 300 MB at 60 s, the longest that can be allowed.
"""

CONVERSION_BYTES: Final = 75 * MIB
"""What one more conversion at the same time needs: 65 MB at 60 s of speech, 40 MB at 10 s."""

CPUS_PER_PROCESS: Final = 4
"""How many CPUs one process keeps busy.

Nine tenths of a conversion run outside the interpreter's lock or in the decoder's process; what is
left of the lock's time is enough for about so many conversions at once.
"""

CONVERSIONS_PER_CPU: Final = 2
"""How many conversions share a CPU.

One waits for Firestore, a bucket or the decoder's process while the other computes; with one for
each CPU a tenth of the CPUs' time is lost even where nothing is far away (benchmarks: throughput).
"""

RECYCLED_AFTER: Final = 2_000
"""After how many requests one of several processes is replaced, so that no leak grows for ever."""

_UNLIMITED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container may use.

    Attributes:
        cpus: CPUs, perhaps a part of one.
        memory_bytes: memory, or None if nobody limits it.
    """

    cpus: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        workers: processes.
        concurrency: conversions at once, in all of them together.
    """

    workers: int
    concurrency: int


def plan(resources: Resources, *, workers: int | None = None) -> Plan:
    """Plan so that every CPU has enough conversions and all of them have memory.

    One process is enough for a few CPUs and starts soonest, loads the characters once, and sees
    every message, however few connections they come through.

    Args:
        resources: what there is.
        workers: how many processes, if that is decided.
    """
    cpus = max(1, round(resources.cpus))
    processes = workers or math.ceil(cpus / CPUS_PER_PROCESS)
    wanted = CONVERSIONS_PER_CPU * cpus
    if resources.memory_bytes is None:
        return Plan(processes, max(wanted, processes))
    if workers is None:
        # The first conversion of a process is part of what the process needs.
        processes = max(1, min(processes, resources.memory_bytes // PROCESS_BYTES))
    left = resources.memory_bytes - processes * PROCESS_BYTES
    most = processes + max(0, left) // CONVERSION_BYTES
    return Plan(processes, max(processes, min(wanted, most)))


def read_resources(root: Path = Path("/")) -> Resources:
    """Read what this process may use: its cgroup's limits, those above it, and its affinity.

    Knows both versions of cgroups (https://docs.kernel.org/admin-guide/cgroup-v2.html and
    https://docs.kernel.org/admin-guide/cgroup-v1/). What cannot be read limits nothing.

    Args:
        root: where `proc` and `sys` lie.
    """
    cpus = float(_affinity())
    memory = _UNLIMITED
    for folder in _folders(root):
        cpus = min(cpus, _cpu_quota(folder))
        memory = min(memory, _memory_limit(folder))
    return Resources(cpus, None if memory >= _UNLIMITED else memory)


def _affinity() -> int:
    """Count the CPUs that this process may run on; not every system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _folders(root: Path) -> Iterable[Path]:
    """Yield the folders of this process's cgroups and of all above them."""
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and not {"cpu", "memory"} & set(controllers.split(",")):
            continue
        own = mount / controllers / path.lstrip("/")
        yield own
        # In a container the path may be the host's, and its own cgroup be mounted at the top.
        yield from (above for above in own.parents if above.is_relative_to(mount))


def _cpu_quota(folder: Path) -> float:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota = _text(folder / "cpu.cfs_quota_us")
        period = _text(folder / "cpu.cfs_period_us")
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return math.inf
    return int(quota) / int(period)


def _memory_limit(folder: Path) -> int:
    limit = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
    return int(limit) if limit.isdecimal() else _UNLIMITED


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
