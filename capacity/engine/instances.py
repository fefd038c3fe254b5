"""Instances of a service: which one takes a request, and when another is started.

Requests go to the started instance that has the fewest. Whoever finds every slot taken waits in
front of the service, first come, first served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacity.engine.accounts import account
from capacity.engine.compiled import compiled, inlined
from capacity.engine.events import push_event
from capacity.engine.queues import append, new_job, take_first
from capacity.engine.state import (
    ABSENT,
    GIVE_UP,
    NOBODY,
    ON_DEMAND,
    RESUME,
    STARTED,
    STARTING,
)

if TYPE_CHECKING:
    from capacity.engine.state import World


@inlined
def enter(world: World, now: float, job: int, service: int) -> bool:
    """Give a job a slot of an instance at once, or have it wait; return whether it has one."""
    services, jobs = world.services, world.jobs
    services[service].requests += 1
    instance = _least_busy(world, service)
    if instance != NOBODY:
        occupy(world, now, job, instance)
        return True
    append(services, service, jobs, job)
    jobs[job].ticket += 1
    moment = now + services[service].patience
    push_event(world, moment, GIVE_UP, int(job), int(jobs[job].ticket))
    ask_for_instances(world, now, service)
    return False


@compiled
def ask_for_instances(world: World, now: float, service: int) -> None:
    """Let on-demand scaling look at the queue after its reaction time."""
    one = world.services[service]
    if one.is_asked == 0:
        one.is_asked = 1
        push_event(world, now + one.reaction, ON_DEMAND, int(service), 0)


@inlined
def occupy(world: World, now: float, job: int, instance: int) -> None:
    """Let a job take a slot of an instance that has one."""
    service = world.instances[instance].service
    account(world, now, service)
    _move(world, instance, 1)
    one = world.services[service]
    one.busy += 1
    if world.instances[instance].busy == 1:
        one.active += 1
        one.most_active = max(one.most_active, one.active)
    world.jobs[job].instance = instance


@compiled
def leave(world: World, now: float, job: int) -> None:
    """Let a job leave its instance, and the next one in."""
    instance = world.jobs[job].instance
    service = world.instances[instance].service
    if world.jobs[job].has_turn != 0:
        _pass_turn(world, now, job)
    account(world, now, service)
    _move(world, instance, -1)
    one = world.services[service]
    one.busy -= 1
    if world.instances[instance].busy == 0:
        one.active -= 1
    world.jobs[job].instance = NOBODY
    admit(world, now, service)


@compiled
def admit(world: World, now: float, service: int) -> None:
    """Let those in who wait, as long as there are slots."""
    services, jobs = world.services, world.jobs
    while services[service].waiting > 0:
        instance = _least_busy(world, service)
        if instance == NOBODY:
            return
        job = take_first(services, service, jobs)
        jobs[job].ticket += 1
        occupy(world, now, job, instance)
        push_event(world, now, RESUME, int(job), int(jobs[job].ticket))


@compiled
def take_turn(world: World, job: int) -> bool:
    """Let a job run on its instance, or have it wait for its turn; return whether it runs."""
    instance = world.jobs[job].instance
    one = world.instances[instance]
    if one.turns < world.services[one.service].turns:
        one.turns += 1
        world.jobs[job].has_turn = 1
        return True
    world.jobs[job].following = NOBODY
    if one.turn_tail == NOBODY:
        one.turn_head = job
    else:
        world.jobs[one.turn_tail].following = job
    one.turn_tail = job
    return False


@inlined
def _pass_turn(world: World, now: float, job: int) -> None:
    jobs = world.jobs
    one = world.instances[jobs[job].instance]
    jobs[job].has_turn = 0
    following = one.turn_head
    if following == NOBODY:
        one.turns -= 1
        return
    one.turn_head = jobs[following].following
    if one.turn_head == NOBODY:
        one.turn_tail = NOBODY
    jobs[following].has_turn = 1
    jobs[following].ticket += 1
    push_event(world, now, RESUME, int(following), int(jobs[following].ticket))


@compiled
def start_instance(world: World, now: float, service: int) -> bool:
    """Begin to start an instance, if it is allowed; return whether it was."""
    services, instances, clock = world.services, world.instances, world.clock
    one = services[service]
    if one.started + one.starting >= one.maximum or one.free == NOBODY:
        return False
    if clock[0].cpus_allocated + one.cpus > clock[0].cpus_limit:
        one.refused_starts += 1
        return False
    account(world, now, service)
    instance = one.free
    one.free = instances[instance].following
    instances[instance].state = STARTING
    one.starting += 1
    one.starts += 1
    one.most_instances = max(one.most_instances, one.started + one.starting)
    clock[0].cpus_allocated += one.cpus
    job = new_job(world, NOBODY, one.start_step - 1)
    world.jobs[job].instance = instance
    push_event(world, now, RESUME, int(job), int(world.jobs[job].ticket))
    return True


@compiled
def make_ready(world: World, now: float, instance: int) -> None:
    """Let a started instance take requests."""
    service = world.instances[instance].service
    account(world, now, service)
    one = world.services[service]
    one.starting -= 1
    one.started += 1
    world.instances[instance].state = STARTED
    world.instances[instance].busy = 0
    _insert(world, instance, 0)
    admit(world, now, service)


@compiled
def stop_idle_instance(world: World, now: float, service: int) -> bool:
    """Stop an instance that has no request; return whether there was one."""
    instance = world.levels[service, 0]
    if instance == NOBODY:
        return False
    account(world, now, service)
    _remove(world, instance, 0)
    one = world.services[service]
    one.started -= 1
    world.clock[0].cpus_allocated -= one.cpus
    world.instances[instance].state = ABSENT
    world.instances[instance].warming = 0
    world.instances[instance].has_converted = 0
    world.instances[instance].following = one.free
    one.free = instance
    return True


@inlined
def _least_busy(world: World, service: int) -> int:
    one = world.services[service]
    if one.started == 0:
        return NOBODY
    level = one.lowest
    while level < one.slots:
        if world.levels[service, level] != NOBODY:
            one.lowest = level
            return int(world.levels[service, level])
        level += 1
    one.lowest = level
    return NOBODY


@inlined
def _move(world: World, instance: int, change: int) -> None:
    busy = world.instances[instance].busy
    _remove(world, instance, busy)
    world.instances[instance].busy = busy + change
    _insert(world, instance, busy + change)


@inlined
def _insert(world: World, instance: int, level: int) -> None:
    instances, service = world.instances, world.instances[instance].service
    head = world.levels[service, level]
    instances[instance].following = head
    instances[instance].preceding = NOBODY
    if head != NOBODY:
        instances[head].preceding = instance
    world.levels[service, level] = instance
    world.services[service].lowest = min(world.services[service].lowest, level)


@inlined
def _remove(world: World, instance: int, level: int) -> None:
    instances, service = world.instances, world.instances[instance].service
    following, preceding = instances[instance].following, instances[instance].preceding
    if preceding == NOBODY:
        world.levels[service, level] = following
    else:
        instances[preceding].following = following
    if following != NOBODY:
        instances[following].preceding = preceding
