from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from shared.container.admission import (
    CREDIT_SECONDS,
    OTHERS_SECONDS,
    REST_SECONDS,
    Admission,
    FairQueue,
    Share,
)
from shared.runtime.push import OverloadedError
from tests.support.clock import loop_seconds
from tests.support.reachable import objects_kept_by
from tests.support.virtual_time import in_virtual_time, settle


def test_so_many_are_let_in_and_a_place_is_free_again_after_an_error() -> None:
    admission = Admission(running=1, waiting=1)

    for _ in range(3):
        with pytest.raises(ValueError, match="x"), admission.admit(), admission.admit():
            raise ValueError("x")
    with admission.admit(), admission.admit(), pytest.raises(OverloadedError, match="all 2 places"):
        admission.admit().__enter__()


async def test_so_many_run_and_what_nobody_waits_for_leaves_half_of_the_places_free() -> None:
    admission = Admission(running=4, waiting=0)

    async with admission.turn(), admission.turn_ahead() as first:
        assert first
        async with admission.turn_ahead() as second:
            assert not second
        async with admission.turn(), admission.turn():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0), admission.turn():
                    pass
    async with admission.turn_ahead() as again:
        assert again
    async with Admission(running=1, waiting=0).turn_ahead() as may_run:
        assert not may_run


def test_a_client_has_half_of_all_places_while_others_come() -> None:
    admission = Admission(running=1, waiting=5)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(admission.admit("greedy"))  # alone: more than half
        with admission.admit("other"), pytest.raises(OverloadedError, match="this client"):
            held.enter_context(admission.admit("greedy"))
        with admission.admit("other"):
            pass


async def test_nothing_is_kept_of_clients_that_have_no_place() -> None:
    admission = Admission(running=2, waiting=2)

    async def let_clients_come(first: int, after: int) -> None:
        for number in range(first, after):
            with admission.admit(f"{number}"):
                async with admission.turn(f"{number}"):
                    pass

    await let_clients_come(0, 10)
    kept = objects_kept_by(admission)
    await let_clients_come(10, 110)

    assert objects_kept_by(admission) <= kept + 5


@in_virtual_time
async def test_after_a_failure_a_client_rests_while_others_come() -> None:
    admission = Admission(running=4, waiting=0, now=loop_seconds)

    async def wait_of(client: str) -> float:
        begin = loop_seconds()
        async with admission.turn(client):
            return loop_seconds() - begin

    admission.penalize("hostile")
    assert await wait_of("hostile") == 0  # it is alone
    admission.penalize(None)
    assert await wait_of("honest") == 0
    admission.penalize("hostile")
    await asyncio.sleep(0.25)
    admission.penalize("hostile")
    assert await wait_of("hostile") == REST_SECONDS
    kept = objects_kept_by(admission)
    for number in range(100):
        admission.penalize(f"{number}")
    await asyncio.sleep(REST_SECONDS)
    assert objects_kept_by(admission) <= kept + 5


@in_virtual_time
async def test_who_has_waited_for_the_longest_time_is_refused_and_keeps_no_place() -> None:
    admission = Admission(running=1, waiting=1, patience=15, now=loop_seconds)

    async with admission.turn():
        with pytest.raises(OverloadedError, match="within 15 s"):
            async with admission.turn():
                pass
        assert loop_seconds() == 15

    async def wait_for_turn() -> None:
        async with admission.turn():
            pass

    async with admission.turn() as turn:
        short = asyncio.create_task(wait_for_turn())
        await asyncio.sleep(1)
        await turn.end()
        await asyncio.sleep(0)
        assert short.done()
        await turn.begin()


class Works:
    """Requests of clients; each holds its place for a second when it is let go."""

    def __init__(self, places: int = 1, spare: int = 0, most_of_one: int | None = None) -> None:
        self.seconds = 0.0
        self.line = FairQueue(places, spare, lambda: self.seconds, most_of_one)
        self.had_turns: list[str] = []
        self.go_on = asyncio.Semaphore(0)
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def wait(self, *names: str) -> None:
        """Let requests come; the client is the first letter."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._work(name))
            await settle()

    async def _work(self, name: str) -> None:
        async with self.line.slot(name[0]):
            self.had_turns.append(name)
            await self.go_on.acquire()

    async def let_go(self, times: int) -> None:
        """Let so many go on, each after a second."""
        for _ in range(times):
            self.seconds += 1
            self.go_on.release()
            await settle()

    async def end(self) -> list[str]:
        """Let all of them go on; the order in which they had their turns."""
        await self.let_go(len(self.tasks))
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return self.had_turns


@pytest.mark.parametrize(
    ("places", "coming", "at_once", "later"),
    [
        ((1, 0), "a1 a2 a3 a4 b1 c1 b2", "a1", "b1 c1 a2 b2 a3 a4"),
        ((4, 0, 2), "b1 a1 a2 a3 c1", "b1 a1 a2 c1", "a3"),
        ((2, 1), "a1 a2 a3 b1 c1", "a1 a2 b1", "c1 a3"),
        ((2, 1), "a1 b1 c1", "a1 b1", "c1"),
    ],
    ids=["in turn", "a share", "a spare place beside one client", "none beside several"],
)
async def test_clients_take_turns(
    places: tuple[int, ...], coming: str, at_once: str, later: str
) -> None:
    works = Works(*places)
    await works.wait(*coming.split())

    assert works.had_turns == at_once.split()
    assert await works.end() == [*at_once.split(), *later.split()]


async def test_a_client_that_is_alone_has_all_places_and_others_count_for_a_while() -> None:
    works = Works(places=4, most_of_one=2)
    await works.wait("a1", "a2", "a3", "a4", "a5")
    assert works.had_turns == ["a1", "a2", "a3", "a4"]

    await works.wait("b1")
    await works.let_go(2)
    assert works.had_turns[4:] == ["b1"]
    works.seconds += OTHERS_SECONDS
    await works.wait("a6")
    assert works.had_turns[5:] == ["a5"]
    await works.end()


async def test_who_comes_anew_is_next_and_saves_nothing_up() -> None:
    works = Works()
    await works.wait("a1", "a2", "a3", "a4", "a5")
    await works.let_go(3)
    await works.wait("b1", "b2", "b3")

    # b comes with what a had had; from then on both get as much.
    assert await works.end() == ["a1", "a2", "a3", "a4", "b1", "b2", "a5", "b3"]


async def test_a_spare_place_is_passed_on_to_the_next_client_that_has_none() -> None:
    works = Works(places=1, spare=1)
    await works.wait("a1", "b1", "c1")
    works.tasks["b1"].cancel()
    await settle()

    assert works.had_turns == ["a1", "b1", "c1"]
    await works.end()


async def test_who_leaves_while_waiting_or_in_the_moment_of_the_turn_loses_no_place() -> None:
    works = Works()
    await works.wait("a1", "b1", "c1")
    works.tasks["b1"].cancel()
    await settle()
    works.go_on.release()
    await asyncio.sleep(0)  # a1 goes on, and gives its place to c1
    works.tasks["c1"].cancel()
    await settle()
    await works.wait("d1", "e1")
    for task in works.tasks.values():
        task.cancel()
    await settle()
    await works.wait("f1")

    assert works.had_turns == ["a1", "d1", "f1"]
    await works.end()


async def test_a_place_is_to_be_passed_on_when_another_waits_who_has_had_less() -> None:
    works = Works()
    await works.wait("a1", "a2")
    works.seconds += 1

    assert not works.line.should_pass_on("a")  # its own requests wait in their order
    await works.wait("b1")
    assert works.line.should_pass_on("a")
    await works.let_go(1)
    assert works.had_turns[-1] == "b1"
    assert not works.line.should_pass_on("b")
    works.seconds += 3
    assert works.line.should_pass_on("b")
    await works.end()


class Texts:
    """Texts of one client in a line with one place; each piece takes a second."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.line = FairQueue(1, now=lambda: self.seconds)
        self.spoken: list[str] = []
        self.awaited, self.have_begun = 18, asyncio.Event()

    async def speak(self, name: str, pieces: int) -> None:
        had = Share()
        for _ in range(pieces):
            async with self.line.slot("a client", had):
                self.spoken.append(name)
                self.seconds += 1
                if len(self.spoken) == self.awaited:
                    self.have_begun.set()
                await settle()


async def test_texts_of_one_client_take_turns_and_one_that_comes_anew_is_next() -> None:
    texts = Texts()
    works = [asyncio.create_task(texts.speak(name, 10)) for name in "abc"]
    await texts.have_begun.wait()
    works.append(asyncio.create_task(texts.speak("short", 2)))
    await asyncio.gather(*works)

    assert texts.spoken[:18] == [*"abc"] * 6
    assert texts.spoken.index("short") <= 19
    first, second = (place for place, name in enumerate(texts.spoken) if name == "short")
    assert second - first <= 4
    assert [texts.spoken.count(name) for name in "abc"] == [10, 10, 10]


async def test_a_text_that_pauses_saves_nothing_up_and_its_client_is_forgotten_with_it() -> None:
    texts = Texts()
    had = Share()
    async with texts.line.slot("a client", had):
        texts.seconds += 1
    await texts.speak("long", 9)
    async with texts.line.slot("a client", had):
        assert had.seconds == 8 - 2 * CREDIT_SECONDS  # the other one began with a credit, too
    del had

    assert not texts.line.should_pass_on("a client", Share())
