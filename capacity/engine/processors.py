"""Sharing processors: every job of a host gets the same, and none more than one processor.

Egalitarian processor sharing in virtual time: the host notes how much each of its jobs has had
since the beginning, and a job's end in that time never changes (Kleinrock, Queueing Systems II, 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacity.engine.accounts import account
from capacity.engine.compiled import inlined
from capacity.engine.events import push_event
from capacity.engine.state import NOBODY, WORK_DONE

if TYPE_CHECKING:
    from capacity.engine.state import World


@inlined
def start_work(
    world: World,
    now: float,
    job: int,
    host: int,
    work: float,
) -> None:
    """Let a job take so many seconds of processor time."""
    jobs, hosts = world.jobs, world.hosts
    _catch_up(world, now, host)
    jobs[job].finish = hosts[host].virtual + work
    _insert(world, job, host)
    _count_working(world, now, host, 1)
    _expect(world, now, host)


@inlined
def finish_work(world: World, now: float, host: int) -> int:
    """Take the job whose work is over off its host, and return it."""
    jobs, hosts = world.jobs, world.hosts
    _catch_up(world, now, host)
    job = hosts[host].head
    hosts[host].head = jobs[job].following
    if hosts[host].head == NOBODY:
        hosts[host].tail = NOBODY
    else:
        jobs[hosts[host].head].preceding = NOBODY
    _count_working(world, now, host, -1)
    if hosts[host].head == NOBODY:
        # Small numbers stay exact.
        hosts[host].virtual = 0.0
    _expect(world, now, host)
    return int(job)


@inlined
def _insert(world: World, job: int, host: int) -> None:
    """Put a job among those of its host, the soonest first; most jobs belong near the end."""
    jobs, hosts = world.jobs, world.hosts
    before = hosts[host].tail
    while before != NOBODY and jobs[before].finish > jobs[job].finish:
        before = jobs[before].preceding
    after = hosts[host].head if before == NOBODY else jobs[before].following
    jobs[job].preceding, jobs[job].following = before, after
    if before == NOBODY:
        hosts[host].head = job
    else:
        jobs[before].following = job
    if after == NOBODY:
        hosts[host].tail = job
    else:
        jobs[after].preceding = job


@inlined
def _catch_up(world: World, now: float, host: int) -> None:
    hosts = world.hosts
    hosts[host].virtual += (now - hosts[host].updated) * _speed(world, host)
    hosts[host].updated = now


@inlined
def _speed(world: World, host: int) -> float:
    working, cpus = world.hosts[host].working, world.hosts[host].cpus
    if working <= cpus:
        return 1.0
    return float(cpus / working)


@inlined
def _count_working(world: World, now: float, host: int, change: int) -> None:
    hosts, service = world.hosts, world.hosts[host].service
    before = min(float(hosts[host].working), hosts[host].cpus)
    hosts[host].working += change
    if service != NOBODY:
        account(world, now, service)
        after = min(float(hosts[host].working), hosts[host].cpus)
        world.services[service].cpus_working += after - before


@inlined
def _expect(world: World, now: float, host: int) -> None:
    hosts = world.hosts
    hosts[host].version += 1
    first = hosts[host].head
    if first != NOBODY:
        left = max(0.0, world.jobs[first].finish - hosts[host].virtual)
        moment = now + left / _speed(world, host)
        push_event(world, moment, WORK_DONE, int(host), int(hosts[host].version))
