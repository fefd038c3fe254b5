"""What nobody waits for any more ends with the piece under way, and keeps its place until then."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from conversion.admission import Admission
from functions.compat.speech.synthesis import Speech, SpeechLimits, Synthesis
from shared.http.push import OverloadedError
from speech.engines.interface.text_engine import TextError, TextErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from speech.signal.arrays import Samples

PIECES = 50


class Speaker:
    """Speaks pieces of which each waits until it is let go on; counts the threads that speak."""

    def __init__(self) -> None:
        self.goes_on = threading.Semaphore(0)
        self.begun, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        self.spoken = 0
        self.most_at_once = 0
        self._at_once = 0
        self._counting = threading.Lock()

    def speech(self) -> Speech:
        return Speech(self._speak, 24_000)

    def _speak(self) -> Iterator[Samples]:
        for _ in range(PIECES):
            with self._counting:
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
            self.begun.release()
            self.goes_on.acquire()
            with self._counting:
                self._at_once -= 1
                self.spoken += 1
            self.ended.release()
            yield np.zeros(2_400, np.float32)


async def is_left() -> bool:
    return False


async def test_requests_that_are_cancelled_never_speak_in_more_threads_than_there_are_places() -> (
    None
):
    speaker = Speaker()
    admission = Admission(running=1, waiting=8)
    synthesis = Synthesis(admission, SpeechLimits())
    asked: set[asyncio.Task[object]] = set()
    for number in range(8):
        speech = speaker.speech()
        asking = synthesis.speak([speech], is_left) if number % 2 else synthesis.stream(speech)
        asked.add(asyncio.create_task(asking))
        if not number:
            assert await asyncio.to_thread(speaker.begun.acquire, timeout=10)
        await asyncio.sleep(0.02)
        for each in asked:
            each.cancel()
    await asyncio.sleep(0.05)
    most = speaker.most_at_once
    speaker.goes_on.release(1_000)
    async with asyncio.timeout(10):
        await asyncio.wait(asked)
    assert await asyncio.to_thread(speaker.ended.acquire, timeout=10)

    assert most == 1
    assert speaker.spoken == 1


async def test_a_cancelled_request_frees_its_place_after_the_piece_under_way() -> None:
    speaker = Speaker()
    synthesis = Synthesis(Admission(running=1, waiting=0), SpeechLimits())
    speaker.goes_on.release()
    stream = await synthesis.stream(speaker.speech())

    for _ in range(2):
        assert await asyncio.to_thread(speaker.begun.acquire, timeout=10)

    synthesis.close(stream)
    with pytest.raises(OverloadedError):
        await synthesis.stream(speaker.speech())
    speaker.goes_on.release(2)
    assert await asyncio.to_thread(speaker.ended.acquire, timeout=10)
    assert await asyncio.to_thread(speaker.ended.acquire, timeout=10)
    await asyncio.sleep(0.2)
    await synthesis.stream(speaker.speech())
    speaker.goes_on.release(1_000)


async def test_what_fails_after_it_was_cancelled_is_not_complained_about() -> None:
    begun, goes_on = asyncio.Event(), threading.Event()
    loop, complaints = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))

    def fail() -> Iterator[Samples]:
        loop.call_soon_threadsafe(begun.set)
        goes_on.wait()
        raise TextError(TextErrorCode.NOTHING_TO_SAY, "It says nothing.")

    admission = Admission(running=1, waiting=0)
    asking = asyncio.create_task(Synthesis(admission, SpeechLimits()).stream(Speech(fail, 24_000)))
    await begun.wait()
    asking.cancel()
    await asyncio.wait({asking})
    goes_on.set()
    async with asyncio.timeout(1), admission.running():
        pass
    await asyncio.sleep(0.01)
    del asking  # its error holds everything that it has called
    gc.collect()

    assert complaints == []
