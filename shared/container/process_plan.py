"""How many processes and conversions a container can run, from the limits of its cgroup.

The host's numbers would mislead: a container with two CPUs may run on a machine with sixty.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.speech.decoding.recording import DecodeLimits

MIB: Final = 1 << 20

PROCESS_BYTES: Final = 285 * MIB
"""Memory of one process with its characters and the parent of its decoding processes.

Measured: with one conversion 210 MB for 10 s of speech, 300 MB for 60 s; the content encoder that
characters share takes 104 MB more.
"""

CONVERSION_BYTES: Final = 75 * MIB
"""Memory of each conversion at once: 65 MB with 60 s of speech, 40 MB with 10 s.

If decoding may take more, that counts: see `memory_needs`.
"""

FETCHED_CONVERSION_BYTES: Final = 640 * MIB
"""Memory of a conversion by a character from the bucket: such networks are large.

Measured: 480 MB with 10 s of speech and an RVC voice of 40 kHz, which takes no more at once.
"""

CPUS_PER_PROCESS: Final = 4
"""How many CPUs one process keeps busy.

Nine tenths of a conversion run without the interpreter's lock or in the decoder's process, so that
the lock is free for about this many conversions at once.
"""

CONVERSIONS_PER_CPU: Final = 2
"""How many conversions share a CPU.

One waits for Firestore, a bucket or the decoder's process while the other computes. With one
conversion per CPU, a tenth of the CPUs' time is lost even with every service on the same machine
(docs/architecture.md, decision 22).
"""

WORN_AFTER_SECONDS: Final = 3600.0
"""After how much work one of several processes is replaced, so that no leak grows for ever.

Requests do not count: anybody can send them, also without a key.
"""

_UNLIMITED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container may use.

    Attributes:
        memory_bytes: memory, or None if nobody limits it.
    """

    cpus: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """What to run."""

    workers: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """How much memory a container needs.

    Attributes:
        process: bytes of one process.
        conversion: bytes of each conversion at once.
    """

    process: int = PROCESS_BYTES
    conversion: int = CONVERSION_BYTES


def memory_needs(limits: DecodeLimits, fetched: int | None = None) -> MemoryNeeds:
    """Return the memory that is needed, whatever is in the recordings.

    So the processes, and as many hostile recordings as are decoded at once, fit into the memory.
    Terraform calculates the same in `infra/terraform/convert.tf`; a test compares the two.

    Args:
        fetched: bytes that the characters from the bucket, and the load of another one, may take
            in one process; None if there is no bucket.
    """
    conversion = max(CONVERSION_BYTES, limits.peak_bytes)
    if fetched is None:
        return MemoryNeeds(PROCESS_BYTES, conversion)
    return MemoryNeeds(PROCESS_BYTES + fetched, max(conversion, FETCHED_CONVERSION_BYTES))


def plan(
    resources: Resources, needs: MemoryNeeds = MemoryNeeds(), *, workers: int | None = None
) -> ProcessPlan:
    """Plan enough conversions for every CPU, but no more than fit into the memory.

    Several processes leave memory for one more: a worn one ends what it has beside the new one.

    For a few CPUs one process is enough. It starts soonest, loads the characters only once, and
    receives every message, even if all come through one connection.

    Args:
        workers: how many processes there must be; None to plan that, too.
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
    """Read what this process may use: the limits of its cgroup and its parents, and its affinity.

    Knows both versions of cgroups (https://docs.kernel.org/admin-guide/cgroup-v2.html and
    https://docs.kernel.org/admin-guide/cgroup-v1/). A limit that cannot be read does not count.

    Args:
        root: the folder of `proc` and `sys`.
    """
    cpus = float(_affinity())
    memory = _UNLIMITED
    for folder in _folders(root):
        cpus = min(cpus, _cpu_quota(folder))
        memory = min(memory, _memory_limit(folder))
    return Resources(cpus, None if memory >= _UNLIMITED else memory)


def _affinity() -> int:
    """Count the CPUs that this process may run on; all CPUs where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _folders(root: Path) -> Iterable[Path]:
    """Yield the folders of this process's cgroups and of all their parents."""
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


def _memory_limit(folder: Path) -> int:
    limit = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
    return int(limit) if limit.isdecimal() else _UNLIMITED


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
