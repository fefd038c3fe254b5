"""What is going to happen, in the order of time: a binary heap (Williams 1964, Algorithm 232).

Python's `heapq` can be compiled, too, but then every call counts who refers to the list, which took
a third of a simulation's time. Events of the same moment happen in the order of their coming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capacity.engine.compiled import inlined

if TYPE_CHECKING:
    from capacity.engine.state import World


@inlined
def push_event(world: World, moment: float, kind: int, subject: int, ticket: int) -> None:
    """Let something happen at a moment that is not past."""
    events, clock = world.events, world.clock[0]
    place = clock.pending
    clock.pending += 1
    clock.pushed += 1
    while place > 0:
        above = (place - 1) >> 1
        if events[above].moment <= moment:
            break
        events[place] = events[above]
        place = above
    one = events[place]
    one.moment = moment
    one.order = clock.pushed
    one.kind = kind
    one.subject = subject
    one.ticket = ticket


@inlined
def take_event(world: World) -> tuple[float, int, int, int]:
    """Take the next event out, of which there must be one; return all about it but its order."""
    events, clock = world.events, world.clock[0]
    first = events[0]
    taken = (float(first.moment), int(first.kind), int(first.subject), int(first.ticket))
    clock.pending -= 1
    _sink_last(world)
    return taken


@inlined
def is_nearly_full(world: World) -> bool:
    """Return whether one more event could lead to more others than there is room for."""
    return bool(world.clock[0].pending + world.clock[0].most_pushes > len(world.events))


@inlined
def _sink_last(world: World) -> None:
    """Move the last event to the first place, and from there to where it belongs."""
    events, count = world.events, world.clock[0].pending
    last = events[count]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and _is_before(events[below + 1], events[below]):
            below += 1
        if not _is_before(events[below], last):
            break
        events[place] = events[below]
        place = below
    events[place] = last


@inlined
def _is_before(one: Any, other: Any) -> bool:
    return bool(
        one.moment < other.moment or (one.moment == other.moment and one.order < other.order)
    )
