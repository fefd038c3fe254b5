"""Pub/Sub's push: a window of messages under way that grows with success, and backoff.

https://cloud.google.com/pubsub/docs/push says that the window begins small, grows exponentially
with acknowledgements and shrinks with failures; by how much is an assumption (parameter file).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacity.engine.compiled import compiled, inlined
from capacity.engine.events import push_event
from capacity.engine.queues import append, take_first
from capacity.engine.state import NOBODY, RESUME

if TYPE_CHECKING:
    from capacity.engine.state import World


@inlined
def push(world: World, job: int, subscription: int) -> bool:
    """Put a message under way, or have it wait for the window; return whether it is."""
    one = world.subscriptions[subscription]
    if one.outstanding < one.window:
        one.outstanding += 1
        world.jobs[job].subscription = subscription
        return True
    append(world.subscriptions, subscription, world.jobs, job)
    one.most_waiting = max(one.most_waiting, one.waiting)
    return False


@inlined
def acknowledge(world: World, now: float, job: int) -> None:
    """End a message; the window grows."""
    one = world.subscriptions[world.jobs[job].subscription]
    one.window = min(one.most_window, one.window + one.growth)
    _close(world, now, job)


@compiled
def refuse(world: World, now: float, job: int) -> int:
    """Have a message delivered again later; the window shrinks.

    Returns:
        The step at which the message goes on: its delivery, or its end as a dead letter.
    """
    subscription = world.jobs[job].subscription
    one = world.subscriptions[subscription]
    one.refused += 1
    # Messages that fail together shrink it once, as in any window of this kind.
    if now - one.decreased >= 1.0:
        one.decreased = now
        one.window = max(one.least_window, one.window * one.decrease)
    _close(world, now, job)
    world.jobs[job].attempts += 1
    if world.jobs[job].attempts >= one.attempts:
        return int(one.dead_step)
    return int(one.first_step)


@inlined
def backoff(world: World, job: int, subscription: int) -> float:
    """Compute the seconds that a refused message waits for its next delivery."""
    one = world.subscriptions[subscription]
    grown = one.minimum_backoff * one.backoff_growth ** (world.jobs[job].attempts - 1)
    return float(min(one.maximum_backoff, grown))


@inlined
def _close(world: World, now: float, job: int) -> None:
    jobs, subscription = world.jobs, world.jobs[job].subscription
    one = world.subscriptions[subscription]
    one.outstanding -= 1
    jobs[job].subscription = NOBODY
    while one.waiting > 0 and one.outstanding < one.window:
        following = take_first(world.subscriptions, subscription, jobs)
        one.outstanding += 1
        jobs[following].subscription = subscription
        jobs[following].ticket += 1
        push_event(world, now, RESUME, int(following), int(jobs[following].ticket))
