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


def processes(folder: Path, count: int, slots: int) -> list[SharedSlots]:
    """Return what so many processes have: each opens the files for itself."""
    return [SharedSlots(folder, slots) for _ in range(count)]


async def test_all_processes_together_have_no_more_than_there_are(tmp_path: Path) -> None:
    running, most = 0, 0

    async def work(slots: SharedSlots) -> None:
        nonlocal running, most
        async with slots.slot():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    each = processes(tmp_path, 3, slots=2)
    async with asyncio.timeout(5):
        await asyncio.gather(*(work(one) for one in each * 40))

    assert (running, most) == (0, 2)


async def test_one_process_may_have_all_of_them(tmp_path: Path) -> None:
    busy, _idle = processes(tmp_path, 2, slots=2)

    async with asyncio.timeout(1), busy.slot(), busy.slot():
        pass


async def test_who_waits_is_woken_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.container.shared_slots._LOOK_AGAIN_SECONDS", 60.0)
    first, second, third = processes(tmp_path, 3, slots=1)
    ended: list[int] = []

    async def work(number: int, slots: SharedSlots) -> None:
        async with slots.slot():
            ended.append(number)

    async with asyncio.timeout(5):
        async with first.slot():
            waiting = [asyncio.create_task(work(n, s)) for n, s in ((2, second), (3, third))]
            await asyncio.sleep(0.01)
            assert ended == []
        await asyncio.gather(*waiting)

    assert sorted(ended) == [2, 3]


async def test_no_process_takes_the_sign_away_from_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has a slot already is woken first, and may not take another one."""
    monkeypatch.setattr("shared.container.shared_slots._LOOK_AGAIN_SECONDS", 60.0)
    first, second, third = processes(tmp_path, 3, slots=2)
    waits, may_go_on, has_come = threading.Event(), threading.Event(), threading.Event()

    async def work(slots: SharedSlots, client: str) -> None:
        async with slots.slot(client):
            has_come.set()

    async def wait_in_a_busy_process() -> None:
        waiting = asyncio.create_task(work(second, "modest"))
        await asyncio.sleep(0.01)
        waits.set()
        may_go_on.wait()  # the loop stands still meanwhile
        await waiting

    async with first.slot("greedy"):
        async with third.slot("another"):
            busy = threading.Thread(target=lambda: asyncio.run(wait_in_a_busy_process()))
            busy.start()
            await asyncio.to_thread(waits.wait)
            held_back = asyncio.create_task(work(first, "greedy"))
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not has_come.is_set()
        may_go_on.set()
        came = await asyncio.to_thread(has_come.wait, 5)
        held_back.cancel()
    await asyncio.to_thread(busy.join)

    assert came


async def test_the_pipe_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    (slots,) = processes(tmp_path, 1, slots=1)
    os.mkfifo(tmp_path / "released-by-nobody")

    async with slots.slot():
        pass

    assert not (tmp_path / "released-by-nobody").exists()


async def test_a_slot_of_a_process_that_was_killed_is_found(tmp_path: Path) -> None:
    (slots,) = processes(tmp_path, 1, slots=1)
    entered = asyncio.Event()

    async def work() -> None:
        async with slots.slot():
            entered.set()

    with (tmp_path / "slot-0").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        assert not entered.is_set()

    async with asyncio.timeout(5):
        await waiting


async def test_who_stops_waiting_takes_no_slot(tmp_path: Path) -> None:
    first, second = processes(tmp_path, 2, slots=1)

    async with first.slot():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), second.slot():
                pass
    async with asyncio.timeout(1), second.slot():
        pass


async def test_beside_a_client_that_has_all_slots_another_takes_the_spare_one(
    tmp_path: Path,
) -> None:
    """The processes do not know of each other's clients, but for what the slots say."""
    first, second = (SharedSlots(tmp_path, 2, spare=1) for _ in range(2))

    async with asyncio.timeout(5), first.slot("greedy"), second.slot("greedy"):
        async with second.slot("modest"):
            pass
        async with first.slot("modest"):
            pass


async def test_nobody_waits_behind_somebody_elses_requests(tmp_path: Path) -> None:
    slots = SharedSlots(tmp_path, 1, spare=1)

    async def work() -> None:
        async with slots.slot("greedy"):
            pass

    async with slots.slot("greedy"):
        waiting = [asyncio.create_task(work()) for _ in range(3)]
        await asyncio.sleep(0.01)
        async with asyncio.timeout(5), slots.slot("modest"):
            assert not any(each.done() for each in waiting)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("holders", [("greedy", "modest"), ("modest", "modest")])
async def test_there_is_no_spare_slot_for_a_crowd_or_for_who_has_one(
    tmp_path: Path, holders: tuple[str, str]
) -> None:
    first, second = (SharedSlots(tmp_path, 2, spare=1) for _ in range(2))

    async with first.slot(holders[0]), second.slot(holders[1]):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), first.slot("modest"):
                pass


async def test_no_more_than_the_spare_slots_are_beside_one_client(tmp_path: Path) -> None:
    first, second = (SharedSlots(tmp_path, 1, spare=1) for _ in range(2))

    async with first.slot("greedy"), second.slot("modest"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), first.slot("another"):
                pass


async def test_slots_do_not_say_who_the_clients_are(tmp_path: Path) -> None:
    async with SharedSlots(tmp_path, 1).slot("a client"):
        assert "client" not in (tmp_path / "slot-0").read_text()


async def test_who_has_a_slot_takes_no_other_while_somebody_else_waits(tmp_path: Path) -> None:
    first, second, third = processes(tmp_path, 3, slots=2)
    came: list[str] = []

    async def work() -> None:
        async with second.slot("modest"):
            came.append("modest")

    async with asyncio.timeout(5), first.slot("greedy"):
        async with second.slot("greedy"):
            waiting = asyncio.create_task(work())
            await asyncio.sleep(0.01)
            assert first.should_pass_on("greedy")
            assert not first.should_pass_on("modest")
        async with third.slot("greedy"):  # comes last, and without waiting
            assert came == ["modest"]
        await waiting

    assert not first.should_pass_on("greedy")


def test_a_killed_process_waits_no_more(tmp_path: Path) -> None:
    (slots,) = processes(tmp_path, 1, slots=1)
    (tmp_path / "waits-somebody-1").touch()

    assert not slots.should_pass_on("greedy")
    assert not (tmp_path / "waits-somebody-1").exists()


async def test_two_who_have_slots_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Each of them waits for a second one, and nobody waits who has none."""
    first, second = processes(tmp_path, 2, slots=3)

    async def work(slots: SharedSlots, client: str) -> None:
        async with slots.slot(client):
            pass

    async with asyncio.timeout(5), first.slot("a"), second.slot("b"):
        async with first.slot("c"):
            waiting = [asyncio.create_task(work(first, each)) for each in ("a", "b")]
            await asyncio.sleep(0.01)
        await asyncio.gather(*waiting)


async def test_a_short_text_waits_for_a_piece_of_the_same_clients_long_ones(tmp_path: Path) -> None:
    first, second = processes(tmp_path, 2, slots=1)
    spoken: list[str] = []
    have_begun = asyncio.Event()

    async def speak(slots: SharedSlots, name: str, pieces: int) -> None:
        had = Share()
        for _ in range(pieces):
            async with slots.slot("a client", had):
                spoken.append(name)
                if len(spoken) == 60:
                    have_begun.set()
                await asyncio.sleep(0.01)

    async with asyncio.timeout(20):
        works = [asyncio.create_task(speak(each, "long", 20)) for each in [first, second] * 3]
        await have_begun.wait()
        before = len(spoken)
        await speak(second, "short", 1)
        after = len(spoken)
        await asyncio.gather(*works)

    assert after - before <= 3
    assert spoken.count("long") == 120


async def test_who_has_a_slot_passes_it_on_to_a_text_that_has_had_less(tmp_path: Path) -> None:
    first, second = processes(tmp_path, 2, slots=1)
    had, spoken = Share(), list[str]()

    async def speak() -> None:
        async with second.slot("a client", Share()):
            spoken.append("short")

    async with asyncio.timeout(5):
        async with first.slot("a client", had):
            await asyncio.sleep(0.01)
            assert not first.should_pass_on("a client", had)
            short = asyncio.create_task(speak())
            await asyncio.sleep(0.01)
            assert first.should_pass_on("a client", had)
            assert not first.should_pass_on("a client")
        async with first.slot("a client", had):
            assert spoken == ["short"]
        await short
