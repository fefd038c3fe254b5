from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from conversion.admission import OTHERS_SECONDS, REST_SECONDS, Admission
from shared.http.push import OverloadedError
from tests.support.reachable import objects_kept_by
from tests.support.virtual_time import settle


def test_so_many_are_let_in_and_the_next_is_sent_away() -> None:
    admission = Admission(running=1, waiting=1)

    with admission.admit():
        with admission.admit(), pytest.raises(OverloadedError, match="all 2 places"):
            admission.admit().__enter__()
        with admission.admit():
            pass


def test_a_place_is_free_again_after_an_error() -> None:
    admission = Admission(running=1, waiting=0)

    for _ in range(3):
        with pytest.raises(ValueError, match="x"), admission.admit():
            raise ValueError("x")


async def test_so_many_run_and_the_others_wait_for_their_turn() -> None:
    admission, running, most = Admission(running=2, waiting=10), 0, 0
    goes_on = asyncio.Event()

    async def work() -> None:
        nonlocal running, most
        async with admission.running():
            running += 1
            most = max(most, running)
            await goes_on.wait()
            running -= 1

    works = [asyncio.create_task(work()) for _ in range(5)]
    await settle()
    assert running == 2
    goes_on.set()
    await asyncio.gather(*works)
    assert most == 2


async def test_what_nobody_waits_for_leaves_half_of_the_places_free() -> None:
    admission = Admission(running=4, waiting=0)

    async with admission.running(), admission.running_ahead() as first:
        assert first
        async with admission.running_ahead() as second:
            assert not second
        async with admission.running(), admission.running():
            pass
    async with admission.running_ahead() as again:
        assert again


async def test_a_single_place_is_for_those_who_wait() -> None:
    async with Admission(running=1, waiting=0).running_ahead() as may_run:
        assert not may_run


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def taken(admission: Admission, stack: ExitStack, client: str | None, wanted: int) -> int:
    """Take places for a client until it has so many or is refused; return how many it has."""
    for count in range(wanted):
        try:
            stack.enter_context(admission.admit(client))
        except OverloadedError:
            return count
    return wanted


def test_a_client_that_is_alone_has_all_places() -> None:
    with ExitStack() as stack:
        assert taken(Admission(running=4, waiting=8), stack, "a", 20) == 12


def test_while_others_come_a_client_has_half_as_many_places_as_run() -> None:
    admission = Admission(running=4, waiting=8)
    with ExitStack() as stack:
        assert taken(admission, stack, "honest", 1) == 1
        assert taken(admission, stack, "greedy", 20) == 2
        with pytest.raises(OverloadedError, match="all places of this client"):
            stack.enter_context(admission.admit("greedy"))
        assert taken(admission, stack, "another", 20) == 2


def test_a_client_that_took_all_places_while_it_was_alone_gets_no_more_when_others_come() -> None:
    admission = Admission(running=4, waiting=8)
    with ExitStack() as greedy:
        assert taken(admission, greedy, "greedy", 11) == 11
        with ExitStack() as honest:
            assert taken(admission, honest, "honest", 2) == 1
        assert taken(admission, greedy, "greedy", 1) == 0


def test_others_count_for_a_while_after_their_last_request() -> None:
    clock = Clock()
    admission = Admission(running=4, waiting=8, now=clock)
    with admission.admit("honest"):
        pass

    clock.seconds += OTHERS_SECONDS - 1
    with ExitStack() as stack:
        assert taken(admission, stack, "greedy", 20) == 2
    clock.seconds += 2
    with ExitStack() as stack:
        assert taken(admission, stack, "greedy", 20) == 12


def test_one_conversion_at_a_time_is_enough_for_everybody() -> None:
    with ExitStack() as stack:
        assert taken(Admission(running=1, waiting=2), stack, "a", 1) == 1


def test_requests_whose_client_is_unknown_are_limited_together() -> None:
    admission = Admission(running=2, waiting=2)
    with ExitStack() as stack:
        assert taken(admission, stack, "a", 1) == 1
        assert taken(admission, stack, None, 20) == 3


def test_nothing_is_kept_of_clients_that_have_no_place() -> None:
    admission = Admission(running=2, waiting=2)

    def let_clients_come(first: int, after: int) -> None:
        for number in range(first, after):
            with admission.admit(f"{number}"):
                pass

    let_clients_come(0, 10)
    kept = objects_kept_by(admission)
    let_clients_come(10, 110)

    assert objects_kept_by(admission) <= kept + 5


def test_after_a_failure_a_client_rests_while_others_come() -> None:
    clock = Clock()
    admission = Admission(running=4, waiting=8, now=clock)
    with ExitStack() as stack:
        taken(admission, stack, "honest", 1)
        admission.failed("greedy")
        admission.failed(None)

        assert taken(admission, stack, "greedy", 1) == 0
        assert taken(admission, stack, "another", 1) == 1
        clock.seconds += REST_SECONDS
        assert taken(admission, stack, "greedy", 1) == 1


def test_after_a_failure_a_client_that_is_alone_goes_on() -> None:
    admission = Admission(running=4, waiting=8)
    admission.failed("a")
    with ExitStack() as stack:
        assert taken(admission, stack, "a", 20) == 12


def test_nothing_is_kept_of_clients_that_have_rested() -> None:
    clock = Clock()
    admission = Admission(running=2, waiting=2, now=clock)
    admission.failed("first")
    kept = objects_kept_by(admission)
    for number in range(100):
        clock.seconds += REST_SECONDS
        admission.failed(f"{number}")

    assert objects_kept_by(admission) <= kept + 5
