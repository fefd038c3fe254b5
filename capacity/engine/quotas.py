"""Quotas: what may be asked of a service of Google's in a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from capacity.engine.compiled import inlined
from capacity.engine.state import PER_PERIOD

if TYPE_CHECKING:
    from capacity.engine.state import World

REFUSED: Final = -1.0


@inlined
def take(world: World, now: float, quota: int, amount: float) -> float:
    """Use a quota; return how many seconds that takes, or `REFUSED`."""
    one = world.quotas[quota]
    _count(world, now, quota, amount)
    if now >= one.begin + one.period:
        _begin_period(world, now, quota)
    if one.kind == PER_PERIOD:
        if one.used + amount > one.limit:
            return _refuse(world, now, quota)
        one.used += amount
        return 0.0
    wait = max(0.0, one.next_free - now)
    if wait > one.patience:
        return _refuse(world, now, quota)
    # Up to a second's worth may come at once.
    one.next_free = max(one.next_free, now - 1.0) + amount / one.rate
    one.used += amount
    if wait > 0.0:
        one.delayed += 1
        _note_first(world, now, quota)
    return float(wait)


@inlined
def _begin_period(world: World, now: float, quota: int) -> None:
    one = world.quotas[quota]
    periods = math.floor((now - one.begin) / one.period)
    recent = one.used / one.period if periods == 1 else 0.0
    one.rate = max(one.limit, one.growth * recent)
    one.begin += periods * one.period
    one.used = 0.0


@inlined
def _refuse(world: World, now: float, quota: int) -> float:
    world.quotas[quota].refused += 1
    _note_first(world, now, quota)
    return REFUSED


@inlined
def _note_first(world: World, now: float, quota: int) -> None:
    if world.quotas[quota].first_met < 0.0:
        world.quotas[quota].first_met = now


@inlined
def _count(world: World, now: float, quota: int, amount: float) -> None:
    one, second = world.quotas[quota], math.floor(now)
    if second != one.second:
        one.second = second
        one.in_second = 0.0
    one.in_second += amount
    one.most_in_second = max(one.most_in_second, one.in_second)
    one.taken += amount
