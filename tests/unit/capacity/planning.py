"""Parameters and crowds that make a simulation exact and short."""

from __future__ import annotations

import numpy as np

from tools.capacity.arrivals import Arrivals
from tools.capacity.outcome import Summary, summarise
from tools.capacity.parameters import Duration, Parameters, read_parameters
from tools.capacity.settings import Settings
from tools.capacity.simulation import Simulation

PARAMETERS = read_parameters()
WARM = Settings(api_min_instances=2, on_upload_min_instances=2, min_instances=8, max_instances=16)


def exact_parameters(**changes: float) -> Parameters:
    """Return parameters without any chance in the durations; `__` in a name stands for a dot."""
    fixed = {
        name: Duration(each.median, 0.0, each.per_spoken)
        for name, each in PARAMETERS.durations.items()
    }
    for name in ("visitor.leaving", "processor.variation", "processor.first_voice"):
        fixed[name] = Duration(0.0)
    fixed |= {name.replace("__", "."): Duration(value) for name, value in changes.items()}
    return PARAMETERS.replaced(fixed)


def evenly(count: int, every: float, spoken: float = 3.0, seconds: float | None = None) -> Arrivals:
    """Return visitors at a constant distance."""
    times = np.arange(count, dtype=np.float64) * every
    end = count * every + 60.0 if seconds is None else seconds
    return Arrivals(times, np.full(count, spoken), end)


def simulated(parameters: Parameters, settings: Settings, arrivals: Arrivals) -> Simulation:
    return Simulation(parameters, settings, arrivals).run()


def summary_of(parameters: Parameters, settings: Settings, arrivals: Arrivals) -> Summary:
    return summarise(simulated(parameters, settings, arrivals))
