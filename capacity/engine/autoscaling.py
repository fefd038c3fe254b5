"""Cloud Run's two ways of scaling: by what was measured, and on demand.

Metrics-based scaling divides what is used on average over a minute by the target utilisation of an
instance, for processors and for slots, and takes the larger number of instances. On-demand scaling
starts instances for requests that wait. Both as documented at
https://cloud.google.com/run/docs/about-instance-autoscaling; what is not documented there, the
parameter file says to be an assumption.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from capacity.engine.accounts import account, minimum_at
from capacity.engine.compiled import compiled, inlined
from capacity.engine.events import push_event
from capacity.engine.instances import ask_for_instances, start_instance, stop_idle_instance
from capacity.engine.state import ON_DEMAND, TICK

if TYPE_CHECKING:
    from capacity.engine.state import World

_LEAST_PAUSE: Final = 0.05
"""Seconds until on-demand scaling looks again at those for whom nothing could be started."""


@compiled
def scale_on_demand(world: World, now: float, service: int) -> None:
    """Start instances for those who wait and for whom none is starting."""
    one = world.services[service]
    one.is_asked = 0
    wanted = math.ceil(one.waiting / one.slots) - one.starting
    _start(world, now, service, int(wanted))
    can_start = one.started + one.starting < one.maximum
    if one.waiting > one.starting * one.slots and can_start:
        one.is_asked = 1
        push_event(world, now + max(one.reaction, _LEAST_PAUSE), ON_DEMAND, int(service), 0)


@compiled
def tick(world: World, now: float) -> None:
    """Look at every service, and again after a while."""
    clock = world.clock
    for service in range(len(world.services)):
        account(world, now, service)
        _note(world, service)
        _scale_by_metrics(world, now, service)
        if world.services[service].waiting > 0:
            ask_for_instances(world, now, service)
    clock[0].ticks += 1
    push_event(world, now + clock[0].tick, TICK, 0, 0)


@compiled
def desired_instances(world: World, service: int, now_tick: int) -> int:
    """Compute the instances that the averages over the window ask for.

    Args:
        world: the simulation.
        service: which one.
        now_tick: the tick whose sample has just been noted.
    """
    clock, samples, one = world.clock, world.samples, world.services[service]
    window = min(now_tick, clock[0].window)
    if window == 0:
        return 0
    now, then = samples[now_tick, service], samples[now_tick - window, service]
    seconds = window * clock[0].tick
    cpus = (now.cpu_area - then.cpu_area) / seconds
    slots = (now.busy_area - then.busy_area) / seconds
    by_cpus = cpus / (one.cpus * one.cpu_target)
    by_slots = slots / (one.slots * one.slot_target)
    # What a rounding error makes of nothing is no reason to start an instance.
    return math.ceil(float(max(by_cpus, by_slots)) - 1e-9)


@inlined
def _note(world: World, service: int) -> None:
    one, sample = world.services[service], world.samples[world.clock[0].ticks, service]
    sample.instances = one.started + one.starting
    sample.active = one.most_active
    sample.waiting = one.waiting
    sample.busy = one.busy
    sample.cpu_area = one.cpu_area
    sample.busy_area = one.busy_area
    one.most_active = one.active


@compiled
def _scale_by_metrics(world: World, now: float, service: int) -> None:
    one, this = world.services[service], world.clock[0].ticks
    desired = desired_instances(world, service, this)
    world.samples[this, service].desired = desired
    present = one.started + one.starting
    least = min(minimum_at(world, now, service), one.maximum)
    missing = max(least, desired) - present
    if missing > 0:
        _start(world, now, service, int(missing))
        return
    for _ in range(present - max(least, _recently_needed(world, service))):
        if not stop_idle_instance(world, now, service):
            return


@compiled
def _recently_needed(world: World, service: int) -> int:
    clock, needed = world.clock, 0
    this = clock[0].ticks
    for index in range(max(0, this - clock[0].keep), this + 1):
        sample = world.samples[index, service]
        needed = max(needed, sample.desired, sample.active)
    return int(needed)


@compiled
def _start(world: World, now: float, service: int, wanted: int) -> None:
    """Start so many instances, but no more than may be started at this pace."""
    one = world.services[service]
    passed = now - one.credited
    one.start_credit = min(one.starts_per_second, one.start_credit + passed * one.starts_per_second)
    one.credited = now
    for _ in range(wanted):
        if one.start_credit < 1.0 or not start_instance(world, now, service):
            return
        one.start_credit -= 1.0
