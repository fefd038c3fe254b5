"""Areas under curves: what a bill, an autoscaler and Little's law are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacity.engine.compiled import inlined

if TYPE_CHECKING:
    from capacity.engine.state import World


@inlined
def account(world: World, now: float, service: int) -> None:
    """Bring a service's areas up to date, before anything about it changes."""
    services = world.services
    passed = now - services[service].changed
    if passed <= 0.0:
        return
    one = services[service]
    one.busy_area += passed * one.busy
    one.cpu_area += passed * one.cpus_working
    one.instance_area += passed * (one.started + one.starting)
    active = one.active + one.starting
    one.active_area += passed * active
    one.idle_minimum_area += passed * max(0, minimum_at(world, now, service) - active)
    one.changed = now


@inlined
def minimum_at(world: World, now: float, service: int) -> int:
    """Count the instances that a service keeps at some moment."""
    one = world.services[service]
    if one.busy_from <= now < one.busy_to:
        return int(max(one.minimum, one.busy_minimum))
    return int(one.minimum)


@inlined
def count_voice(world: World, now: float, change: int) -> None:
    """Let a voice come into the system, or leave it."""
    clock = world.clock
    clock[0].area += (now - clock[0].changed) * clock[0].in_system
    clock[0].changed = now
    clock[0].in_system += change
    clock[0].most_in_system = max(clock[0].most_in_system, clock[0].in_system)
