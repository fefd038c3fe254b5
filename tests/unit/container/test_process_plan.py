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
}


@pytest.mark.parametrize(
    ("cpus", "memory", "expected"),
    [
        (2, 1 * GIB, ProcessPlan(workers=1, concurrency=4)),
        (1, 512 * MIB, ProcessPlan(workers=1, concurrency=2)),
        (0.5, None, ProcessPlan(workers=1, concurrency=2)),
        (8, 4 * GIB, ProcessPlan(workers=2, concurrency=16)),
        (8, None, ProcessPlan(workers=2, concurrency=16)),
    ],
)
def test_every_cpu_has_one_conversion_that_computes_as_another_waits(
    cpus: float, memory: int | None, expected: ProcessPlan
) -> None:
    assert plan(Resources(cpus, memory)) == expected


def test_little_memory_means_fewer_conversions() -> None:
    memory = PROCESS_BYTES + 2 * CONVERSION_BYTES
    assert plan(Resources(8, memory)) == ProcessPlan(workers=1, concurrency=2)


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


@pytest.mark.parametrize("seconds", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("max_bytes", [65_536, 8_000_000, 104_857_600])
def test_a_conversion_gets_the_memory_that_decoding_a_hostile_recording_may_take(
    seconds: float, max_bytes: int
) -> None:
    limits = DecodeLimits(max_seconds=seconds, max_bytes=max_bytes)
    needed = limits.memory_allowance + limits.answer_bytes + max_bytes

    assert memory_needs(limits).conversion >= needed


def test_memory_is_kept_free_for_the_characters_of_a_bucket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.conversion.settings.read_resources", lambda: Resources(2, 4 * GIB))

    assert ConvertSettings(**TOLD).concurrency == 4
    assert ConvertSettings(**TOLD, characters_bucket="characters").concurrency == 2
    smaller = ConvertSettings(
        **TOLD, characters_bucket="characters", characters_memory_bytes=GIB // 4
    )
    assert smaller.concurrency == 3
    smaller = ConvertSettings(**TOLD, characters_bucket="characters", max_bundle_bytes=GIB // 4)
    assert smaller.concurrency == 3


def test_where_recordings_may_be_larger_fewer_are_converted_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.conversion.settings.read_resources", lambda: Resources(2, 1 * GIB))
    small = ConvertSettings(**TOLD)
    large = ConvertSettings(**TOLD, max_seconds=60, max_upload_bytes=50_000_000)

    assert (small.concurrency, large.concurrency) == (4, 2)


class FileMachine:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **files: str) -> Resources:
        for name, content in files.items():
            path = self.root / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n")
        return read_resources(self.root)


@pytest.fixture
def machine(tmp_path: Path) -> FileMachine:
    return FileMachine(tmp_path)


def test_the_second_version_of_cgroups_limits_cpus_and_memory(machine: FileMachine) -> None:
    found = machine.write(
        proc__self__cgroup="0::/",
        sys__fs__cgroup__cpu_dot_max="50000 100000",
        sys__fs__cgroup__memory_dot_max="536870912",
    )
    assert found == Resources(0.5, 512 * MIB)


def test_the_first_version_of_cgroups_limits_cpus_and_memory(machine: FileMachine) -> None:
    found = machine.write(
        proc__self__cgroup="4:memory:/box\n3:cpu,cpuacct:/box\n2:freezer:/box",
        **{
            "sys__fs__cgroup__cpu,cpuacct__box__cpu_dot_cfs_quota_us": "25000",
            "sys__fs__cgroup__cpu,cpuacct__box__cpu_dot_cfs_period_us": "100000",
            "sys__fs__cgroup__memory__box__memory_dot_limit_in_bytes": "1073741824",
        },
    )
    assert found == Resources(0.25, 1 * GIB)


def test_a_limit_of_a_parent_cgroup_counts_too(machine: FileMachine) -> None:
    found = machine.write(
        proc__self__cgroup="0::/pod/box",
        sys__fs__cgroup__pod__cpu_dot_max="10000 100000",
        sys__fs__cgroup__pod__box__cpu_dot_max="max 100000",
    )
    assert found.cpus == 0.1


def test_no_limits_mean_the_cpus_of_the_machine_and_any_memory(machine: FileMachine) -> None:
    found = machine.write(
        proc__self__cgroup="0::/",
        sys__fs__cgroup__cpu_dot_max="max 100000",
        sys__fs__cgroup__memory_dot_max="max",
    )
    assert found.memory_bytes is None
    assert found == read_resources(machine.root / "without-any")


def test_settings_are_planned_together_unless_they_are_set() -> None:
    alone = ConvertSettings(**TOLD, workers=1)
    assert alone.is_alone
    assert alone.max_work_seconds == 0

    several = ConvertSettings(**TOLD, workers=3, concurrency=7, backlog=8)
    assert not several.is_alone
    assert several.max_work_seconds == 3600
    assert several.share(several.concurrency) == 3

    assert not ConvertSettings(**TOLD, workers=1, max_work_seconds=9).is_alone


def test_no_process_is_without_a_conversion_to_do() -> None:
    crowded = ConvertSettings(**TOLD, workers=4, concurrency=2, backlog=8)
    assert crowded.processes == 2
    assert crowded.share(2) == 1
