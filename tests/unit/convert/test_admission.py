from __future__ import annotations

import asyncio

import pytest

from functions.convert.admission import Admission
from shared.http.push import OverloadedError
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
