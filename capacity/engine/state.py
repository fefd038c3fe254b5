"""The state of a simulation: one structured array for each kind of thing.

Indices point from one array into another; `NOBODY` points to nothing. All times are seconds since
the simulation's begin.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

NOBODY: Final = -1

# What a step does.
DELAY: Final = 0
WORK: Final = 1
ENTER: Final = 2
LEAVE: Final = 3
TURN: Final = 4
SPEAK: Final = 5
RELEASE: Final = 6
DEPART: Final = 7
TAKE: Final = 8
PUSH: Final = 9
ACKNOWLEDGE: Final = 10
REFUSE_PUSH: Final = 11
FORK: Final = 12
WARM_UP: Final = 13
END_WARM_UP: Final = 14
READY: Final = 15
END_VOICE: Final = 16
END_JOB: Final = 17
ADMIT: Final = 18
MACHINE_WORK: Final = 19
FIRST_WORK: Final = 20
COME_BACK: Final = 21
SERVED: Final = 22

# What an event asks for.
RESUME: Final = 0
WORK_DONE: Final = 1
GIVE_UP: Final = 2
ON_DEMAND: Final = 3
TICK: Final = 4

# What an instance is.
ABSENT: Final = 0
STARTING: Final = 1
STARTED: Final = 2

# How a voice ended.
UNDER_WAY: Final = 0
DONE: Final = 1
REFUSED: Final = 2
DEAD: Final = 3
LEFT: Final = 4

# How a quota acts.
PER_PERIOD: Final = 0
RAMP: Final = 1

STEP: Final = np.dtype(
    [
        ("kind", "i8"),
        ("target", "i8"),
        ("failure", "i8"),
        ("amount", "f8"),
        ("minimum", "f8"),
        ("spread", "f8"),
        ("median", "f8"),
        ("sigma", "f8"),
        ("per_spoken", "f8"),
    ]
)
"""One step of a program.

`target` is a service, a quota, a subscription, another step, or an outcome, as `kind` has it;
`failure` the step that follows where this one cannot be done. A duration is `minimum`, plus up to
`spread` by chance, plus a lognormal part (`median`, `sigma`) that grows by `per_spoken` for each
second that the visitor speaks. `amount` is how much of a quota is taken, or a probability.
`COME_BACK` and `WARM_UP` use the same fields for settings of theirs; see where they are written.
"""

VOICE: Final = np.dtype(
    [
        ("arrived", "f8"),
        ("spoken", "f8"),
        ("released", "f8"),
        ("ended", "f8"),
        ("attempts", "i8"),
        ("in_line", "f8"),
        ("turns", "i8"),
        ("outcome", "i1"),
    ]
)
"""A voice: when its visitor came, spoke for how long, let go of the button, and had an end.

`in_line` is how long its visitor was asked to wait in line, in `turns` times.
"""

JOB: Final = np.dtype(
    [
        ("voice", "i8"),
        ("finish", "f8"),
        ("ticket", "i8"),
        ("step", "i8"),
        ("instance", "i8"),
        ("origin", "i8"),
        ("has_turn", "i8"),
        ("subscription", "i8"),
        ("attempts", "i8"),
        ("following", "i8"),
        ("preceding", "i8"),
    ]
)
"""What is going on for a voice; it may have several at once: its message and its warm-up.

`finish` is when its work ends in its host's virtual time; a `ticket` that has changed makes an
event stale; `origin` is the instance of the api that a warm-up came from.
"""

INSTANCE: Final = np.dtype(
    [
        ("service", "i8"),
        ("state", "i8"),
        ("host", "i8"),
        ("busy", "i8"),
        ("turns", "i8"),
        ("turn_head", "i8"),
        ("turn_tail", "i8"),
        ("following", "i8"),
        ("preceding", "i8"),
        ("warming", "i8"),
        ("has_converted", "i8"),
        ("window", "f8"),
        ("arrivals", "f8"),
        ("arrivals_before", "f8"),
        ("served_window", "f8"),
        ("served", "f8"),
        ("served_before", "f8"),
        ("last_turn", "f8"),
    ]
)
"""An instance of a service; `busy` counts its requests, `turns` those of them that run.

The rest is the api's: the warm-ups that it has under way, the arrivals of this and of the last
`window`, the visitors that it has served likewise, and the last turn that it gave to somebody who
is to come back.
"""

HOST: Final = np.dtype(
    [
        ("cpus", "f8"),
        ("virtual", "f8"),
        ("updated", "f8"),
        ("version", "i8"),
        ("service", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("working", "i8"),
    ]
)
"""Processors that jobs share evenly, none with more than one; `virtual` is what each has had.

The list from `head` to `tail` has its jobs in the order of their ends.
"""

SERVICE: Final = np.dtype(
    [
        ("slots", "i8"),
        ("places", "i8"),
        ("turns", "i8"),
        ("minimum", "i8"),
        ("busy_minimum", "i8"),
        ("busy_from", "f8"),
        ("busy_to", "f8"),
        ("maximum", "i8"),
        ("cpus", "f8"),
        ("first", "i8"),
        ("free", "i8"),
        ("started", "i8"),
        ("starting", "i8"),
        ("active", "i8"),
        ("most_active", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("waiting", "i8"),
        ("lowest", "i8"),
        ("start_step", "i8"),
        ("is_asked", "i8"),
        ("patience", "f8"),
        ("reaction", "f8"),
        ("cpu_target", "f8"),
        ("slot_target", "f8"),
        ("starts_per_second", "f8"),
        ("start_credit", "f8"),
        ("credited", "f8"),
        ("busy", "i8"),
        ("cpus_working", "f8"),
        ("changed", "f8"),
        ("busy_area", "f8"),
        ("cpu_area", "f8"),
        ("instance_area", "f8"),
        ("active_area", "f8"),
        ("idle_minimum_area", "f8"),
        ("requests", "i8"),
        ("given_up", "i8"),
        ("starts", "i8"),
        ("most_instances", "i8"),
        ("refused_starts", "i8"),
    ]
)
"""A service, its queue, what its autoscaler knows, and the areas that its bill is made from."""

QUOTA: Final = np.dtype(
    [
        ("kind", "i8"),
        ("limit", "f8"),
        ("period", "f8"),
        ("growth", "f8"),
        ("patience", "f8"),
        ("begin", "f8"),
        ("used", "f8"),
        ("rate", "f8"),
        ("next_free", "f8"),
        ("second", "i8"),
        ("in_second", "f8"),
        ("most_in_second", "f8"),
        ("most_in_period", "f8"),
        ("taken", "f8"),
        ("delayed", "i8"),
        ("refused", "i8"),
        ("first_met", "f8"),
    ]
)
"""A quota and its use.

`PER_PERIOD` refuses what is more than `limit` in a `period`; `RAMP` lets `rate` pass in a second,
has the rest wait, refuses what would wait longer than `patience`, and after each `period` allows
`growth` times what was used in it, but never less than `limit`.
"""

SUBSCRIPTION: Final = np.dtype(
    [
        ("window", "f8"),
        ("least_window", "f8"),
        ("most_window", "f8"),
        ("growth", "f8"),
        ("decrease", "f8"),
        ("decreased", "f8"),
        ("outstanding", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("waiting", "i8"),
        ("minimum_backoff", "f8"),
        ("maximum_backoff", "f8"),
        ("backoff_growth", "f8"),
        ("attempts", "i8"),
        ("dead_step", "i8"),
        ("first_step", "i8"),
        ("refused", "i8"),
        ("most_waiting", "i8"),
    ]
)
"""A push subscription with its window: how many messages it may have under way."""

CLOCK: Final = np.dtype(
    [
        ("now", "f8"),
        ("arrived", "i8"),
        ("ended", "i8"),
        ("in_system", "i8"),
        ("most_in_system", "i8"),
        ("changed", "f8"),
        ("area", "f8"),
        ("events", "i8"),
        ("free_job", "i8"),
        ("jobs_made", "i8"),
        ("cpus_allocated", "f8"),
        ("cpus_limit", "f8"),
        ("tick", "f8"),
        ("ticks", "i8"),
        ("window", "i8"),
        ("keep", "i8"),
        ("end", "f8"),
        ("horizon", "f8"),
        ("begin_step", "i8"),
        ("coming", "i8"),
        ("pending", "i8"),
        ("pushed", "i8"),
        ("most_pushes", "i8"),
        ("late_after", "f8"),
        ("late", "i8"),
        ("most_late", "i8"),
    ]
)
"""The simulation as a whole; `area` is the integral of the voices in the system.

`pending` counts the events to come and `pushed` all so far; one event leads to at most
`most_pushes` others. `coming` is the next visitor who comes when a voice has its end; there may be
none. The simulation ends early when more than `most_late` voices have waited longer than
`late_after` or were lost.
"""

EVENT: Final = np.dtype(
    [
        ("moment", "f8"),
        ("order", "i8"),
        ("kind", "i8"),
        ("subject", "i8"),
        ("ticket", "i8"),
    ]
)
"""Something that happens at a moment; `order` counts events, for those of the same moment."""

SAMPLE: Final = np.dtype(
    [
        ("instances", "i8"),
        ("active", "i8"),
        ("waiting", "i8"),
        ("busy", "i8"),
        ("desired", "i8"),
        ("cpu_area", "f8"),
        ("busy_area", "f8"),
    ]
)
"""A service at one tick of its autoscaler."""

Records = npt.NDArray[Any]


class World(NamedTuple):
    """Everything there is.

    Attributes:
        clock: one element of `CLOCK`.
        steps: all programs, one after another.
        voices: by their arrival.
        jobs: as many as there may be at once.
        instances: of all services, those of one side by side.
        hosts: the first is the machine that stands for every host of a local cloud; the others
            belong to the instance of the index before theirs.
        services: in the order of the way.
        levels: the head of the list of a service's started instances that have so many requests.
        quotas: those that bind.
        subscriptions: those on the way.
        samples: by tick, then by service.
        events: those to come.
        progress: the number of voices that have ended, for whoever watches from another thread.
    """

    clock: Records
    steps: Records
    voices: Records
    jobs: Records
    instances: Records
    hosts: Records
    services: Records
    levels: npt.NDArray[np.int64]
    quotas: Records
    subscriptions: Records
    samples: Records
    events: Records
    progress: npt.NDArray[np.int64]
