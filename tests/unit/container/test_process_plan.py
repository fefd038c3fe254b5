"""The plan for a container, and the limits that are read from its cgroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.convert.settings import ConvertSettings
from shared.container.process_plan import (
    CONVERSION_BYTES,
    MIB,
    PROCESS_BYTES,
    MemoryNeeds,
    ProcessPlan,
    Resources,
    memory_needs,
    plan,
    read_resources,
)
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.kokoro_packages import PACKAGES, KokoroPackages

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024 * MIB
TOLD: dict[str, Any] = {
    "project_id": "p",
    "environment": "local",
    "push_verification": "off",
    "uploads_bucket": "uploads",
    "results_bucket": "results",
    "signing_service_account": "a@b",
    "kokoro": "off",
}


@pytest.mark.parametrize(
    ("cpus", "memory", "expected"),
    [
        (2, 1 * GIB, ProcessPlan(workers=1, concurrency=4)),
        (0.5, None, ProcessPlan(workers=1, concurrency=2)),
        (8, 4 * GIB, ProcessPlan(workers=2, concurrency=16)),
        (8, PROCESS_BYTES + 2 * CONVERSION_BYTES, ProcessPlan(workers=1, concurrency=2)),
    ],
)
def test_every_cpu_has_one_conversion_that_computes_as_another_waits_if_there_is_memory(
    cpus: float, memory: int | None, expected: ProcessPlan
) -> None:
    assert plan(Resources(cpus, memory)) == expected


def test_a_wish_for_processes_is_kept_and_each_has_a_conversion() -> None:
    assert plan(Resources(2, 2 * GIB), workers=3) == ProcessPlan(workers=3, concurrency=4)
    assert plan(Resources(1, 1 * GIB), workers=3) == ProcessPlan(workers=3, concurrency=3)


@given(
    cpus=st.floats(0.1, 64),
    memory=st.none() | st.integers(1, 64 * GIB),
    workers=st.none() | st.integers(1, 32),
    process=st.integers(PROCESS_BYTES, GIB),
    conversion=st.integers(CONVERSION_BYTES, GIB),
)
def test_a_plan_has_work_for_every_process_and_no_more_than_memory_allows(
    cpus: float, memory: int | None, workers: int | None, process: int, conversion: int
) -> None:
    planned = plan(Resources(cpus, memory), MemoryNeeds(process, conversion), workers=workers)
    assert 1 <= planned.workers <= planned.concurrency
    if memory is not None and workers is None and memory >= process + conversion:
        one_more = process if planned.workers > 1 else 0
        needed = planned.workers * process + one_more + planned.concurrency * conversion
        assert needed <= memory


@pytest.mark.parametrize(("seconds", "max_bytes"), [(1.0, 65_536), (60.0, 104_857_600)])
def test_a_conversion_gets_the_memory_that_decoding_a_hostile_recording_may_take(
    seconds: float, max_bytes: int
) -> None:
    limits = DecodeLimits(max_seconds=seconds, max_bytes=max_bytes)
    needed = limits.memory_allowance + limits.answer_bytes + max_bytes

    assert memory_needs(limits).conversion >= needed


def test_memory_is_kept_free_for_the_characters_of_a_bucket_and_for_large_recordings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.conversion.settings.read_resources", lambda: Resources(2, 4 * GIB))

    assert ConvertSettings(**TOLD).concurrency == 4
    assert ConvertSettings(**TOLD, characters_bucket="characters").concurrency == 2
    for smaller in ("characters_memory_bytes", "max_bundle_bytes"):
        told: dict[str, Any] = TOLD | {"characters_bucket": "characters", smaller: GIB // 4}
        assert ConvertSettings(**told).concurrency == 3

    monkeypatch.setattr("shared.conversion.settings.read_resources", lambda: Resources(2, 1 * GIB))
    large = ConvertSettings(**TOLD, max_seconds=60, max_upload_bytes=50_000_000)
    assert (ConvertSettings(**TOLD).concurrency, large.concurrency) == (4, 2)


@pytest.mark.parametrize(
    ("said", "has_packages", "most"),
    [("on", True, 4), ("on", False, 8), ("off", True, 8)],
)
def test_memory_is_kept_free_for_kokoro_where_it_speaks(
    said: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_packages: bool
) -> None:
    monkeypatch.setattr("shared.conversion.settings.read_resources", lambda: Resources(4, 1 * GIB))
    for name in PACKAGES if has_packages else ():
        (tmp_path / name).mkdir()

    config = ConvertSettings(**TOLD | {"kokoro": said, "kokoro_dir": tmp_path})

    assert config.concurrency == most
    assert KokoroPackages(config.kokoro_packages).is_complete() is (most == 4)


def read(root: Path, cgroup: str, **limits: str) -> Resources:
    """Read the limits of a machine with these files below `sys/fs/cgroup`."""
    files = {f"sys/fs/cgroup/{name}": content for name, content in limits.items()}
    for name, content in {"proc/self/cgroup": cgroup, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content + "\n")
    return read_resources(root)


def test_both_versions_of_cgroups_and_their_parents_limit_cpus_and_memory(tmp_path: Path) -> None:
    second = {"cpu.max": "50000 100000", "memory.max": "536870912"}
    assert read(tmp_path / "second", "0::/", **second) == Resources(0.5, 512 * MIB)

    first = {
        "cpu,cpuacct/box/cpu.cfs_quota_us": "25000",
        "cpu,cpuacct/box/cpu.cfs_period_us": "100000",
        "memory/box/memory.limit_in_bytes": "1073741824",
    }
    cgroup = "4:memory:/box\n3:cpu,cpuacct:/box\n2:freezer:/box"
    assert read(tmp_path / "first", cgroup, **first) == Resources(0.25, 1 * GIB)

    parent = {"pod/cpu.max": "10000 100000", "pod/box/cpu.max": "max 100000"}
    assert read(tmp_path / "parent", "0::/pod/box", **parent).cpus == 0.1

    unlimited = read(tmp_path / "none", "0::/", **{"cpu.max": "max 100000", "memory.max": "max"})
    assert unlimited.memory_bytes is None
    assert unlimited == read_resources(tmp_path / "without-any")


def test_settings_are_planned_together_unless_they_are_set() -> None:
    alone = ConvertSettings(**TOLD, workers=1)
    assert alone.is_alone
    assert alone.max_work_seconds == 0

    several = ConvertSettings(**TOLD, workers=3, concurrency=7, backlog=8)
    assert not several.is_alone
    assert several.max_work_seconds == 3600
    assert several.share(several.concurrency) == 3

    assert not ConvertSettings(**TOLD, workers=1, max_work_seconds=9).is_alone

    # No process is without a conversion to do.
    crowded = ConvertSettings(**TOLD, workers=4, concurrency=2, backlog=8)
    assert crowded.processes == 2
    assert crowded.share(2) == 1
