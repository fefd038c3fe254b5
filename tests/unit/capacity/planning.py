"""What the planner's tests share: parameters that make a simulation exact, and short runs."""

from __future__ import annotations

import numpy as np

from tools.capacity.arrivals import Arrivals
from tools.capacity.parameters import Duration, Parameters, read_parameters
from tools.capacity.settings import Instances, Settings
from tools.capacity.simulation import Simulation

WARM = Settings(minimum=Instances(2, 2, 8), maximum=Instances(8, 8, 16))


def exact_parameters(**changes: float) -> Parameters:
    """Return parameters without any chance in the durations; `__` in a name stands for a dot."""
    parameters = read_parameters()
    fixed = {
        name: Duration(each.duration.median, 0.0, each.duration.per_spoken)
        for name, each in parameters
    }
    fixed["visitor.leaving"] = Duration(0.0)
    fixed["processor.variation"] = fixed["processor.first_voice"] = Duration(0.0)
    fixed |= {name.replace("__", "."): Duration(value) for name, value in changes.items()}
    return parameters.replaced(fixed)


def evenly(count: int, every: float, spoken: float = 3.0, seconds: float | None = None) -> Arrivals:
    """Return visitors at a constant distance."""
    times = np.arange(count, dtype=np.float64) * np.float64(every)
    end = float(times[-1]) + 60.0 if seconds is None else seconds
    return Arrivals(times, np.full(count, spoken), end)


def simulated(
    parameters: Parameters, settings: Settings, arrivals: Arrivals, seed: int = 0
) -> Simulation:
    """Return a simulation that is over."""
    return Simulation(parameters, settings, arrivals, seed=seed).run()
