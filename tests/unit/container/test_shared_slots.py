from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from typing import TYPE_CHECKING

import pytest

from shared.container.admission import Share
from shared.container.shared_slots import SharedSlots

if TYPE_CHECKING:
    from pathlib import Path


async def work(slots: SharedSlots, client: str | None, done: list[str | None]) -> None:
    async with slots.slot(client):
        done.append(client)


async def is_free(slots: SharedSlots, client: str | None = None) -> bool:
    try:
        async with asyncio.timeout(0.05), slots.slot(client):
            return True
    except TimeoutError:
        return False


async def waiting(slots: SharedSlots, client: str, done: list[str | None]) -> asyncio.Task[None]:
    """Let a client begin to wait."""
    task = asyncio.create_task(work(slots, client, done))
    await asyncio.sleep(0.01)
    return task


async def test_all_processes_together_have_no_more_than_there_are(tmp_path: Path) -> None:
    running, most = 0, 0

    async def count(slots: SharedSlots) -> None:
        nonlocal running, most
        async with slots.slot():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    each = [SharedSlots(tmp_path, 2) for _ in range(3)]
    async with asyncio.timeout(5):
        await asyncio.gather(*(count(one) for one in each * 40))
        async with each[0].slot(), each[0].slot():  # one may have all of them
            pass

    assert (running, most) == (0, 2)


async def test_who_waits_is_woken_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.container.shared_slots._LOOK_AGAIN_SECONDS", 60.0)
    first, second, third = (SharedSlots(tmp_path, 1) for _ in range(3))
    done: list[str | None] = []

    async with asyncio.timeout(5):
        async with first.slot():
            tasks = [await waiting(second, "2", done), await waiting(third, "3", done)]
            assert done == []
        await asyncio.gather(*tasks)

    assert set(done) == {"2", "3"}


async def test_no_process_takes_the_sign_away_from_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has a slot already is woken first, and may not take another one."""
    monkeypatch.setattr("shared.container.shared_slots._LOOK_AGAIN_SECONDS", 60.0)
    first, second, third = (SharedSlots(tmp_path, 2) for _ in range(3))
    waits, may_go_on = threading.Event(), threading.Event()
    done: list[str | None] = []

    async def wait_in_a_busy_process() -> None:
        task = await waiting(second, "modest", done)
        waits.set()
        may_go_on.wait()  # the loop stands still meanwhile
        async with asyncio.timeout(5):
            await task

    async with first.slot("greedy"):
        async with third.slot("another"):
            busy = asyncio.create_task(asyncio.to_thread(asyncio.run, wait_in_a_busy_process()))
            await asyncio.to_thread(waits.wait)
            held_back = await waiting(first, "greedy", done)
        await asyncio.sleep(0.05)
        assert done == []
        may_go_on.set()
        await busy
        held_back.cancel()

    assert done[0] == "modest"


async def test_what_a_killed_process_has_left_is_removed_and_its_slot_found(tmp_path: Path) -> None:
    slots, done = SharedSlots(tmp_path, 1), list[str | None]()
    os.mkfifo(tmp_path / "released-by-nobody")
    (tmp_path / "waits-somebody-1").touch()

    with (tmp_path / "slot-0").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        task = await waiting(slots, "a client", done)
        assert done == []
    async with asyncio.timeout(5):
        await task

    assert not slots.should_pass_on("greedy")
    assert not (tmp_path / "waits-somebody-1").exists()
    assert not (tmp_path / "released-by-nobody").exists()
    assert "client" not in (tmp_path / "slot-0").read_text(), "it says who they are"


async def test_who_stops_waiting_takes_no_slot(tmp_path: Path) -> None:
    first, second = (SharedSlots(tmp_path, 1) for _ in range(2))

    async with first.slot():
        assert not await is_free(second)
    assert await is_free(second)


@pytest.mark.parametrize(
    ("holders", "client", "expected"),
    [
        (("greedy", "greedy"), "modest", True),
        (("greedy", "modest"), "modest", False),
        (("modest", "modest"), "modest", False),
    ],
    ids=["one client has all", "a crowd", "the same client"],
)
async def test_a_spare_slot_is_for_others_beside_a_client_that_has_all_slots(
    tmp_path: Path, holders: tuple[str, str], client: str, *, expected: bool
) -> None:
    """The processes do not know of each other's clients, but for what the slots say."""
    first, second = (SharedSlots(tmp_path, 2, spare=1) for _ in range(2))

    async with first.slot(holders[0]), second.slot(holders[1]):
        assert await is_free(second, client) is expected
        assert await is_free(first, client) is expected


async def test_nobody_waits_behind_somebody_elses_requests(tmp_path: Path) -> None:
    slots, other = (SharedSlots(tmp_path, 1, spare=1) for _ in range(2))
    done: list[str | None] = []

    async with asyncio.timeout(5), slots.slot("greedy"):
        tasks = [await waiting(slots, "greedy", done) for _ in range(3)]
        async with slots.slot("modest"):
            assert done == []
            assert not await is_free(other, "another"), "there is one spare slot"
    await asyncio.gather(*tasks)


async def test_who_has_a_slot_takes_no_other_while_somebody_else_waits(tmp_path: Path) -> None:
    first, second, third = (SharedSlots(tmp_path, 2) for _ in range(3))
    done: list[str | None] = []

    async with asyncio.timeout(5), first.slot("greedy"):
        async with second.slot("greedy"):
            task = await waiting(second, "modest", done)
            assert first.should_pass_on("greedy")
            assert not first.should_pass_on("modest")
        async with third.slot("greedy"):  # comes last, and without waiting
            assert done == ["modest"]
        await task

    assert not first.should_pass_on("greedy")


async def test_two_who_have_slots_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Each of them waits for a second one, and nobody waits who has none."""
    first, second = (SharedSlots(tmp_path, 3) for _ in range(2))

    async with asyncio.timeout(5), first.slot("a"), second.slot("b"):
        async with first.slot("c"):
            tasks = [await waiting(first, each, []) for each in ("a", "b")]
        await asyncio.gather(*tasks)


async def test_a_short_text_waits_for_a_piece_of_the_same_clients_long_ones(tmp_path: Path) -> None:
    first, second = (SharedSlots(tmp_path, 1) for _ in range(2))
    spoken: list[str] = []
    have_begun = asyncio.Event()

    async def speak(slots: SharedSlots, name: str, pieces: int) -> None:
        had = Share()
        for _ in range(pieces):
            async with slots.slot("a client", had):
                spoken.append(name)
                if len(spoken) == 30:
                    have_begun.set()
                await asyncio.sleep(0.01)

    async with asyncio.timeout(20):
        works = [asyncio.create_task(speak(each, "long", 10)) for each in [first, second] * 3]
        await have_begun.wait()
        before = len(spoken)
        await speak(second, "short", 1)
        after = len(spoken)
        await asyncio.gather(*works)

    assert after - before <= 3
    assert spoken.count("long") == 60


async def test_who_has_a_slot_passes_it_on_to_a_text_that_has_had_less(tmp_path: Path) -> None:
    first, second = (SharedSlots(tmp_path, 1) for _ in range(2))
    had, done = Share(), list[str | None]()

    async with asyncio.timeout(5):
        async with first.slot("a client", had):
            await asyncio.sleep(0.01)
            assert not first.should_pass_on("a client", had)
            short = await waiting(second, "a client", done)
            assert first.should_pass_on("a client", had)
            assert not first.should_pass_on("a client")
        async with first.slot("a client", had):
            assert done == ["a client"]
        await short
