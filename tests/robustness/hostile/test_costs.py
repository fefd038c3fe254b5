"""The costs of decoding are measured, and the costliest files stay within the limits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.robustness.hostile.costliest import COSTLIEST
from tests.robustness.measurement.decoding_costs import (
    MOST_CPU_SECONDS,
    MOST_MEMORY_BYTES,
    Cost,
    Found,
    Meter,
    Search,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


@pytest.fixture(scope="module")
def meter() -> Meter:
    return Meter()


@pytest.mark.parametrize("name", COSTLIEST)
def test_a_costly_file_costs_no_more_than_any_may(meter: Meter, name: str) -> None:
    cost = meter.cost_of(COSTLIEST[name]())

    assert cost is not None
    # The operating system counts whole ticks.
    assert 0 < cost.cpu_seconds <= MOST_CPU_SECONDS + 0.02
    assert 0 < cost.memory_bytes <= MOST_MEMORY_BYTES


def test_a_process_that_has_used_and_freed_much_memory_measures_the_same(meter: Meter) -> None:
    data = COSTLIEST["Opus with 255 channels and 60 packets"]()
    expected = meter.cost_of(data)
    kept = [bytes(100_000) for _ in range(2_000)]
    # Every second one is freed, so that the memory stays with the process.
    del kept[::2]
    measured = Meter().cost_of(data)

    assert len(kept) == 1_000
    assert expected is not None
    assert measured is not None
    assert measured.memory_bytes > 0.8 * expected.memory_bytes


def test_a_meter_in_a_process_that_has_grown_measures_the_same(meter: Meter) -> None:
    data = COSTLIEST["Opus with 255 channels and 60 packets"]()
    before = meter.cost_of(data)
    grown = bytearray(64 << 20)
    after = meter.cost_of(data)

    assert len(grown) == 64 << 20
    assert before is not None
    assert after is not None
    assert after.memory_bytes > 0.8 * before.memory_bytes
    assert before.memory_bytes > 16 << 20


def test_a_search_goes_on_with_what_another_has_kept(meter: Meter, tmp_path: Path) -> None:
    first, second = Search(meter, 1), Search(meter, 1)
    first.tried, first.seconds = 7, 3.5
    first.elite["memory"] = [Found("a file", b"RIFF", Cost(0.1, 5, 4))]
    first.save(tmp_path)

    assert not second.resume(tmp_path / "elsewhere")
    assert second.resume(tmp_path)
    assert (second.tried, second.seconds, second.elite) == (7, 3.5, first.elite)
