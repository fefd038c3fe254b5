from __future__ import annotations

import numpy as np
import pytest

from benchmarks.capacity.measured import OWN, Measured, Processor
from benchmarks.capacity.predicted import Predictor
from capacity.model.parameters import Duration

SPENT = {
    "firestore": 0.014,
    "pubsub": 0.015,
    "storage": 0.008,
    "api": 0.008,
    "on_upload": 0.010,
    "convert": 0.060,
    OWN: 0.024,
}
MEASURED = Measured({}, {}, 1.0, {}, Processor(SPENT, SPENT, SPENT, 0.02), start=0.9, free=2.0)


def on_two_processors() -> Predictor:
    predictor = Predictor.of(MEASURED, SPENT).with_beat(0.05)
    two = {"deployed.machine_cpus": Duration(2.0)}
    return Predictor(predictor.parameters.replaced(two))


def test_a_voice_takes_as_much_of_the_processors_as_was_measured() -> None:
    # Eight visitors who come again at once keep two processors busy all the time.
    assert on_two_processors().saturation() == pytest.approx(2 / sum(SPENT.values()), rel=0.05)


def test_few_visitors_never_wait_for_each_other() -> None:
    alone = on_two_processors().idle(100)
    assert np.median(alone) < sum(SPENT.values()) + 3 * 0.05
    assert np.median(alone) > SPENT["convert"]


def test_the_beat_is_found_that_waits_were_made_with() -> None:
    predictor = on_two_processors()
    assert predictor.beat(list(predictor.idle(500))) == pytest.approx(0.05, abs=0.01)


def test_a_warm_up_leaves_only_the_first_voice_to_wait_for() -> None:
    predictor = on_two_processors()
    idle = float(np.median(predictor.idle(200)))
    warmed_up = float(np.median(predictor.cold(50, warm_up=True)))
    assert warmed_up == pytest.approx(idle + 0.02, abs=0.006)
    without = float(np.median(predictor.cold(50, warm_up=False)))
    assert without == pytest.approx(idle + 0.02 + 0.9, rel=0.15)


def test_visitors_who_come_at_once_wait_for_each_other() -> None:
    predictor = on_two_processors()
    apart = np.median(predictor.at_random([float(second) for second in range(20)]))
    assert np.median(predictor.at_random([0.0] * 20)) > 2 * apart
