"""Lists of jobs in the order of their coming, without any memory of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capacity.engine.compiled import inlined
from capacity.engine.state import NOBODY

if TYPE_CHECKING:
    from capacity.engine.state import Records, World


@inlined
def append(owners: Records, owner: int, jobs: Records, job: int) -> None:
    """Put a job at the end of the queue that `head` and `tail` of an owner describe."""
    jobs[job].following = NOBODY
    tail = owners[owner].tail
    if tail == NOBODY:
        owners[owner].head = job
    else:
        jobs[tail].following = job
    owners[owner].tail = job
    owners[owner].waiting += 1


@inlined
def take_first(owners: Records, owner: int, jobs: Records) -> int:
    """Take the first job out of a queue that has one, and return it."""
    job = owners[owner].head
    owners[owner].head = jobs[job].following
    if owners[owner].head == NOBODY:
        owners[owner].tail = NOBODY
    owners[owner].waiting -= 1
    return int(job)


@inlined
def new_job(world: World, voice: int, step: int) -> int:
    """Return a job that begins at a step."""
    clock, jobs = world.clock, world.jobs
    job = clock[0].free_job
    if job == NOBODY:
        job = clock[0].jobs_made
        clock[0].jobs_made += 1
    else:
        clock[0].free_job = jobs[job].following
    jobs[job].voice = voice
    jobs[job].step = step
    jobs[job].ticket += 1
    jobs[job].instance = NOBODY
    jobs[job].origin = NOBODY
    jobs[job].has_turn = 0
    jobs[job].subscription = NOBODY
    jobs[job].attempts = 0
    return int(job)


@inlined
def forget_job(world: World, job: int) -> None:
    """Let a job's place be used again."""
    world.jobs[job].ticket += 1
    world.jobs[job].following = world.clock[0].free_job
    world.clock[0].free_job = job
