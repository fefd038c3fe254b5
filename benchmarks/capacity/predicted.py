"""The same situations in the simulator, fed with the local cloud's parameters."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.capacity.guests import SPOKEN_SECONDS
from benchmarks.capacity.measured import OWN
from benchmarks.measuring.voice_journeys import AT_ONCE, LISTENING_SECONDS
from capacity.choice.summary import waits_of
from capacity.model.arrivals import Arrivals
from capacity.model.parameters import CLOUD, LOCAL, Duration, read_parameters
from capacity.model.settings import Instances, Quota, Settings, Signing
from capacity.model.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.capacity.measured import Measured
    from capacity.choice.summary import Numbers
    from capacity.model.parameters import Parameters

REPEATS: Final = 20
"""How many times as many voices are simulated as are sent."""

SATURATING: Final = 1600

FIRESTORE_CALLS: Final = 7
"""Four writes, two reads, and the listener: each is one step of the way."""

DELIVERIES: Final = 3
OBJECT_WAYS: Final = 4
BEAT_SECONDS: Final = 0.1
FIT_STEPS: Final = 7
WARM: Final = Settings(
    warm_up=False,
    minimum=Instances(1, 1, 1),
    maximum=Instances(1, 1, 1),
    signing=Signing.HMAC,
    lifted=frozenset(Quota),
)


@dataclass(frozen=True, slots=True)
class Predictor:
    """Predicts what was measured.

    Attributes:
        parameters: of the local cloud on this machine.
    """

    parameters: Parameters

    @classmethod
    def of(cls, measured: Measured, spent: Mapping[str, float]) -> Predictor:
        """Return one that knows what was measured in this run.

        Args:
            measured: everything.
            spent: the seconds of processor time per voice and service in the situation to predict.
        """
        return cls(_of_this_machine(measured, spent))

    def beat(self, waits: Sequence[float]) -> float:
        """Return the seconds of the emulator's beat that these waits at idle have.

        The beat alone is fitted: to the median wait on the idle machine.
        """
        wanted = float(np.median(waits))
        low, high = 0.0, 0.5
        for _ in range(FIT_STEPS):
            beat = (low + high) / 2
            found = float(np.median(self.with_beat(beat).idle(100)))
            low, high = (beat, high) if found < wanted else (low, beat)
        return (low + high) / 2

    def with_beat(self, seconds: float) -> Predictor:
        """Return one whose emulator delivers at random within so many seconds."""
        return Predictor(self.parameters.replaced({"google.push_spread": Duration(seconds)}))

    def idle(self, count: int) -> Numbers:
        """Predict waits one after another."""
        return self._waits(WARM, np.linspace(0.0, 5.0 * count, count))

    def at_random(self, came: Sequence[float]) -> Numbers:
        """Predict waits of visitors who come at these seconds.

        They come several times, because their waits for the emulator's messages are random.
        """
        return np.concatenate(
            [self._waits(WARM, np.asarray(came), chance=chance) for chance in range(REPEATS)]
        )

    def cold(self, count: int, *, warm_up: bool) -> Numbers:
        """Predict waits for an instance that is scaled to zero, or is being warmed up."""
        settings = replace(WARM, warm_up=warm_up, minimum=Instances(1, 1, 0))
        spoken = SPOKEN_SECONDS if warm_up else LISTENING_SECONDS
        return self._waits(settings, np.linspace(0.0, 100.0 * count, count), spoken)

    def saturation(self) -> float:
        """Predict the rate with `AT_ONCE` visitors, each of whom comes again at once."""
        arrivals = Arrivals(np.zeros(SATURATING), _speaking(SATURATING), 0.0, at_once=AT_ONCE)
        simulation = Simulation.prepare(self.parameters, WARM, arrivals).run()
        return SATURATING / float(simulation.world.voices["ended"].max())

    def _waits(
        self,
        settings: Settings,
        times: Numbers,
        spoken: float = LISTENING_SECONDS,
        chance: int = 0,
    ) -> Numbers:
        speaking = _speaking(len(times), spoken, chance)
        arrivals = Arrivals(times, speaking, float(times[-1]) + 30.0)
        return waits_of(Simulation.prepare(self.parameters, settings, arrivals).run(chance))


def _speaking(count: int, spoken: float = LISTENING_SECONDS, chance: int = 0) -> Numbers:
    return spoken + np.random.default_rng(chance).uniform(0.0, BEAT_SECONDS, count)


def _of_this_machine(measured: Measured, spent: Mapping[str, float]) -> Parameters:
    parameters = read_parameters(CLOUD, LOCAL)
    conversion = min(
        spent["convert"], parameters.duration("processor.conversion").at(SPOKEN_SECONDS)
    )
    return parameters.replaced(
        {
            "processor.conversion": Duration(conversion),
            "processor.converter": Duration(spent["convert"]),
            "processor.first_voice": Duration(measured.processor.first_voice),
            "processor.api": Duration(spent["api"]),
            "processor.on_upload": Duration(spent["on_upload"]),
            "stand_in.firestore": Duration(spent["firestore"] / FIRESTORE_CALLS),
            "stand_in.pubsub": Duration(spent["pubsub"] / DELIVERIES),
            "stand_in.storage": Duration(spent["storage"] / OBJECT_WAYS),
            # Visits that find nothing are further apart than this.
            "cloud_run.keep": Duration(20.0),
            "stand_in.visitor": Duration(spent[OWN] / 2),
            "deployed.machine_cpus": Duration(float(len(os.sched_getaffinity(0)))),
            "start.convert": Duration(measured.start),
        }
    )


def predict(measured: Measured) -> tuple[dict[str, Numbers], float]:
    """Return the predicted waits by situation, in seconds, and the saturation."""
    processor = measured.processor
    beat = Predictor.of(measured, processor.idle).beat(measured.waits["idle"])

    def where(spent: Mapping[str, float]) -> Predictor:
        return Predictor.of(measured, spent).with_beat(beat)

    scaled = where(processor.scaled)
    waits = {
        "idle": where(processor.idle).idle(500),
        **{
            situation: where(crowd.processor).at_random(crowd.came)
            for situation, crowd in measured.crowds.items()
        },
        "cold, no warm-up": scaled.cold(200, warm_up=False),
        "cold, with warm-up": scaled.cold(200, warm_up=True),
    }
    return waits, where(processor.busy).saturation()
