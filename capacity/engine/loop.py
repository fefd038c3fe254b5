"""The event loop: the next arrival or the next event, and the steps that follow from it."""

from __future__ import annotations

import numpy as np

from capacity.engine.accounts import account, count_voice
from capacity.engine.autoscaling import scale_on_demand, tick
from capacity.engine.compiled import borrowed, compiled, entry, inlined
from capacity.engine.events import is_nearly_full, push_event, take_event
from capacity.engine.instances import enter, leave, make_ready, start_instance, take_turn
from capacity.engine.processors import finish_work, start_work
from capacity.engine.pushing import acknowledge, backoff, push, refuse
from capacity.engine.queues import forget_job, new_job, take_first
from capacity.engine.quotas import take
from capacity.engine.state import (
    ACKNOWLEDGE,
    ADMIT,
    COME_BACK,
    DELAY,
    DEPART,
    DONE,
    END_VOICE,
    END_WARM_UP,
    ENTER,
    FIRST_WORK,
    FORK,
    GIVE_UP,
    LEAVE,
    LEFT,
    MACHINE_WORK,
    NOBODY,
    ON_DEMAND,
    PUSH,
    READY,
    REFUSE_PUSH,
    RELEASE,
    RESUME,
    SERVED,
    SPEAK,
    TAKE,
    TICK,
    TURN,
    WARM_UP,
    WORK,
    WORK_DONE,
    World,
)


@entry
def run(owned: World, chance: np.random.Generator) -> bool:
    """Simulate until every voice has had its end, but no longer than the clock allows.

    Args:
        owned: its state at the beginning; afterwards that at the end.
        chance: the source of everything random.

    Returns:
        Whether it is over. If not, there is no room for more events; called again with the same
        state and more room, it goes on.
    """
    world = World(
        borrowed(owned.clock),
        borrowed(owned.steps),
        borrowed(owned.voices),
        borrowed(owned.jobs),
        borrowed(owned.instances),
        borrowed(owned.hosts),
        borrowed(owned.services),
        borrowed(owned.levels),
        borrowed(owned.quotas),
        borrowed(owned.subscriptions),
        borrowed(owned.samples),
        borrowed(owned.events),
        borrowed(owned.progress),
    )
    clock, voices = world.clock, world.voices
    events = world.events
    if clock[0].pushed == 0:
        _start_minimum(world)
        push_event(world, 0.0, TICK, 0, 0)
    while clock[0].ended < len(voices) or events[0].moment <= clock[0].end:
        if clock[0].late > clock[0].most_late:
            break
        if is_nearly_full(world):
            return False
        clock[0].events += 1
        arrival = voices[clock[0].arrived].arrived if clock[0].arrived < len(voices) else np.inf
        job = NOBODY
        if arrival <= events[0].moment:
            now = arrival
            job = _arrive(world, now)
        else:
            now, kind, subject, ticket = take_event(world)
            if now > clock[0].horizon:
                break
            if kind == RESUME:
                if world.jobs[subject].ticket == ticket:
                    job = subject
                    world.jobs[job].step += 1
            elif kind == WORK_DONE:
                if world.hosts[subject].version == ticket:
                    job = finish_work(world, now, subject)
                    world.jobs[job].step += 1
            elif kind == GIVE_UP:
                if world.jobs[subject].ticket == ticket:
                    job = _give_up(world, subject)
            elif kind == ON_DEMAND:
                scale_on_demand(world, now, subject)
            elif kind == TICK:
                tick(world, now)
        clock[0].now = now
        if job != NOBODY:
            _advance(world, chance, now, job)
    for service in range(len(world.services)):
        account(world, clock[0].now, service)
    return True


@compiled
def _start_minimum(world: World) -> None:
    for service in range(len(world.services)):
        for _ in range(world.services[service].minimum):
            if not start_instance(world, 0.0, service):
                break
            # They have been there for long.
            _, _, job, _ = take_event(world)
            instance = world.jobs[job].instance
            forget_job(world, job)
            make_ready(world, 0.0, instance)
            world.services[service].starts -= 1


@inlined
def _arrive(world: World, now: float) -> int:
    clock = world.clock
    job = new_job(world, clock[0].arrived, clock[0].begin_step)
    clock[0].arrived += 1
    count_voice(world, now, 1)
    return job


@inlined
def _give_up(world: World, job: int) -> int:
    """End the waiting of a request that has waited in front of a service for too long.

    All have the same patience, so it is the one that came first.
    """
    step = world.steps[world.jobs[job].step]
    take_first(world.services, step.target, world.jobs)
    world.services[step.target].given_up += 1
    world.jobs[job].step = step.failure
    return job


@inlined
def _duration(world: World, chance: np.random.Generator, index: int, job: int) -> float:
    step = world.steps[index]
    seconds = step.minimum
    if step.spread > 0.0:
        seconds += step.spread * chance.random()
    typical = step.median
    voice = world.jobs[job].voice
    if voice != NOBODY:
        typical += step.per_spoken * world.voices[voice].spoken
    if typical > 0.0:
        seconds += typical * np.exp(step.sigma * chance.standard_normal())
    return float(seconds)


@inlined
def _advance(
    world: World,
    chance: np.random.Generator,
    now: float,
    job: int,
) -> None:
    """Do a job's steps until one of them takes time or ends it.

    One function for all kinds of steps: a call for each would take longer than the step.
    """
    jobs, steps = world.jobs, world.steps
    while True:
        index = jobs[job].step
        step = steps[index]
        kind = step.kind
        pause = 0.0
        if kind in (DELAY, WORK, MACHINE_WORK, FIRST_WORK):
            pause = _duration(world, chance, index, job)
            if kind == FIRST_WORK:
                one = world.instances[jobs[job].instance]
                if one.has_converted != 0:
                    pause = 0.0
                one.has_converted = 1
            if kind != DELAY and pause > 0.0:
                is_own = kind != MACHINE_WORK and jobs[job].instance != NOBODY
                host = world.instances[jobs[job].instance].host if is_own else 0
                start_work(world, now, job, host, pause)
                return
        elif kind == ENTER:
            if not enter(world, now, job, step.target):
                return
        elif kind == ADMIT:
            inside = world.instances[jobs[job].instance].busy
            if inside > world.services[step.target].places:
                jobs[job].step = step.failure
                continue
        elif kind == TURN:
            if not take_turn(world, job):
                return
        elif kind == TAKE:
            pause = take(world, now, step.target, step.amount)
            if pause < 0.0:
                jobs[job].step = step.failure
                continue
        elif kind == PUSH:
            if not push(world, job, step.target):
                return
        elif kind == SPEAK:
            voice = world.voices[jobs[job].voice]
            begin = voice.arrived if step.target == 0 else now
            # An api that answers late keeps the recording waiting.
            voice.released = begin + voice.spoken
            pause = max(0.0, voice.released - now)
        elif kind == RELEASE:
            # A text is there with the click.
            world.voices[jobs[job].voice].released = world.voices[jobs[job].voice].arrived
        elif kind == DEPART:
            if chance.random() < step.amount:
                jobs[job].step = step.failure
                continue
        elif kind == FORK:
            _fork(world, now, job, step.target)
        elif kind == WARM_UP:
            _warm_up(world, now, job, index)
        elif kind == SERVED:
            _count_served(world, now, jobs[job].instance, step.amount)
        elif kind == COME_BACK:
            pause = _come_back(world, chance, now, job, index)
            if jobs[job].instance != NOBODY:
                leave(world, now, job)
            if pause > 0.0:
                # The event adds one to the step.
                jobs[job].step = step.target - 1
        elif kind == ACKNOWLEDGE:
            acknowledge(world, now, job)
        elif kind == REFUSE_PUSH:
            if jobs[job].instance != NOBODY:
                leave(world, now, job)
            subscription = jobs[job].subscription
            world.voices[jobs[job].voice].attempts += 1
            jobs[job].step = refuse(world, now, job)
            if jobs[job].step == world.subscriptions[subscription].dead_step:
                continue
            # The event adds one to the step.
            jobs[job].step -= 1
            pause = backoff(world, job, subscription)
        elif kind == READY:
            instance = jobs[job].instance
            forget_job(world, job)
            make_ready(world, now, instance)
            return
        else:
            if jobs[job].instance != NOBODY:
                leave(world, now, job)
            if kind != LEAVE:
                if kind == END_WARM_UP:
                    world.instances[jobs[job].origin].warming -= 1
                elif kind == END_VOICE:
                    _end_voice(world, now, jobs[job].voice, step.target)
                forget_job(world, job)
                return
        if pause > 0.0:
            _resume_after(world, now, job, pause)
            return
        jobs[job].step += 1


@inlined
def _resume_after(world: World, now: float, job: int, seconds: float) -> None:
    world.jobs[job].ticket += 1
    push_event(world, now + seconds, RESUME, int(job), int(world.jobs[job].ticket))


@inlined
def _fork(world: World, now: float, job: int, step: int) -> None:
    """Begin another job for the same voice."""
    other = new_job(world, world.jobs[job].voice, step - 1)
    _resume_after(world, now, other, 0.0)


@inlined
def _warm_up(world: World, now: float, job: int, index: int) -> None:
    """Send a warm-up, unless as many of the same instance are under way as arrivals ask for.

    `spread` of the step is the window over which arrivals are counted, `amount` the slots that each
    of them takes in it, and `minimum` the most warm-ups at once.
    """
    step, origin = world.steps[index], world.jobs[job].instance
    one = world.instances[origin]
    if now >= one.window + 2.0 * step.spread:
        one.arrivals_before, one.arrivals, one.window = 0.0, 0.0, now
    elif now >= one.window + step.spread:
        one.arrivals_before, one.arrivals = one.arrivals, 0.0
        one.window += step.spread
    one.arrivals += 1.0
    share = 1.0 - (now - one.window) / step.spread
    recent = one.arrivals + share * one.arrivals_before
    if one.warming < min(step.minimum, np.ceil(recent * step.amount)):
        one.warming += 1
        other = new_job(world, world.jobs[job].voice, step.target - 1)
        world.jobs[other].origin = origin
        _resume_after(world, now, other, 0.0)


@inlined
def _count_served(world: World, now: float, instance: int, window: float) -> None:
    one = world.instances[instance]
    if now >= one.served_window + 2.0 * window:
        one.served_before, one.served, one.served_window = 0.0, 0.0, now
    elif now >= one.served_window + window:
        one.served_before, one.served = one.served, 0.0
        one.served_window += window
    one.served += 1.0


@inlined
def _come_back(
    world: World, chance: np.random.Generator, now: float, job: int, index: int
) -> float:
    """Return after how many seconds a visitor who was refused comes back; 0 if not at all.

    An instance of the api gives turns, as many a second as it has served in the last `spread`
    seconds, from `minimum` to `median` seconds away. Whoever met no instance comes back after one
    second, and each time after twice as long, up to `sigma`. All come later by up to `per_spoken`
    of that, and nobody waits for longer than `amount` in all.
    """
    step, instance = world.steps[index], world.jobs[job].instance
    voice = world.voices[world.jobs[job].voice]
    seconds = min(step.sigma, 2.0 ** float(voice.turns))
    if instance != NOBODY:
        one = world.instances[instance]
        share = min(1.0, max(0.0, 1.0 - (now - one.served_window) / step.spread))
        rate = max(1.0, (one.served + share * one.served_before) / step.spread)
        turn = max(one.last_turn + 1.0 / rate, now + step.minimum)
        one.last_turn = min(turn, now + step.median)
        seconds = np.ceil(one.last_turn - now)
    left = step.amount - voice.in_line
    if seconds > left:
        return 0.0
    seconds = min(left, seconds * (1.0 + step.per_spoken * chance.random()))
    voice.in_line += seconds
    voice.turns += 1
    return float(seconds)


@inlined
def _end_voice(world: World, now: float, voice: int, outcome: int) -> None:
    one, clock = world.voices[voice], world.clock[0]
    one.ended = now
    one.outcome = outcome
    clock.ended += 1
    world.progress[0] = clock.ended
    if outcome != LEFT and (outcome != DONE or now - one.released > clock.late_after):
        clock.late += 1
    if clock.coming < len(world.voices):
        world.voices[clock.coming].arrived = now
        clock.coming += 1
    count_voice(world, now, -1)
