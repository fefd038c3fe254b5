"""The costs of decoding are measured, and the costliest files stay within the limits."""

from __future__ import annotations

import sys

import pytest

from tests.robustness.hostile.costliest import COSTLIEST
from tests.robustness.hostile.meter import Meter

MOST_CPU_SECONDS = 1.0
MOST_MEMORY_BYTES = 128 << 20

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
