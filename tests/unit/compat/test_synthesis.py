"""What nobody waits for any more ends with the piece under way, and keeps its place until then."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from functions.compat.service.synthesis import SlowReaderError, Speech, SpeechLimits, Synthesis
from shared.container.admission import Admission
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.speech.signal.sound import Samples


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
        async with admission.turn():  # its place is free again
            pass

    assert most == 1
    assert speaker.spoken == 1


SENTENCES = 20


class TurnSpeaker:
    """Speaks texts of some sentences, of which one is spoken each time it is let go on."""

    def __init__(self) -> None:
        self.spoken: list[str] = []
        self.goes_on = threading.Semaphore(0)

    def speech(self, name: str, sentences: int) -> Speech:
        def begin() -> Iterator[Samples]:
            for _ in range(sentences):
                self.goes_on.acquire()
                self.spoken.append(name)
                yield np.zeros(2_400, np.float32)

        return Speech(begin, 24_000)


async def _speak_some_way(
    synthesis: Synthesis, speaker: TurnSpeaker, way: str, client: str | None
) -> None:
    speech = speaker.speech("long", SENTENCES)
    if way == "whole":
        await synthesis.speak([speech], is_left, client)
        return
    if way == "streamed":
        async for _ in (await synthesis.stream(speech, client)).read():
            pass
        return
    turn = synthesis.turn(client)
    for _ in range(SENTENCES):
        stream = await synthesis.stream(speaker.speech("long", 1), client, turn=turn)
        async for _ in stream.read():
            pass
        synthesis.close(stream)


@pytest.mark.parametrize("way", ["streamed", "whole", "sentence by sentence"])
@pytest.mark.parametrize("client", ["another", "the same"])
async def test_a_short_text_waits_for_a_sentence_of_the_long_ones_whosever_they_are(
    way: str, client: str | None
) -> None:
    speaker, synthesis = TurnSpeaker(), Synthesis(Admission(running=1, waiting=64), SpeechLimits())
    of_short = "modest" if client == "another" else client
    works = [
        asyncio.create_task(_speak_some_way(synthesis, speaker, way, client)) for _ in range(5)
    ]
    for _ in range(3 * 5):  # all of them have begun
        speaker.goes_on.release()
        await asyncio.sleep(0.01)
    before = len(speaker.spoken)
    short = asyncio.create_task(synthesis.speak([speaker.speech("short", 2)], is_left, of_short))
    await asyncio.sleep(0.05)
    for _ in range(5 * SENTENCES + 2):
        speaker.goes_on.release()
    await asyncio.gather(short, *works)

    places = [place - before for place, name in enumerate(speaker.spoken) if name == "short"]
    assert places[0] <= 1
    assert places[1] <= 12
    assert speaker.spoken.count("long") == 5 * SENTENCES


async def test_little_is_spoken_ahead_of_a_slow_reader_however_few_bytes_that_takes() -> None:
    speaker, limits = TurnSpeaker(), SpeechLimits(ahead_seconds=0.5)
    synthesis = Synthesis(Admission(running=1, waiting=8), limits)
    for _ in range(SENTENCES):
        speaker.goes_on.release()

    stream = await synthesis.stream(speaker.speech("slow", SENTENCES))  # 0.1 s each
    await asyncio.sleep(0.1)
    ahead = len(speaker.spoken)
    read = b"".join([piece async for piece in stream.read()])

    assert ahead == 5
    assert len(read) == SENTENCES * 4_800


async def test_one_client_has_half_of_the_streams() -> None:
    speaker, limits = TurnSpeaker(), SpeechLimits(streams=4)
    synthesis = Synthesis(Admission(running=8, waiting=8), limits)
    for _ in range(3):
        speaker.goes_on.release()
    for _ in range(2):
        await synthesis.stream(speaker.speech("a", 1), "a")

    with pytest.raises(OverloadedError, match="of this client"):
        await synthesis.stream(speaker.speech("a", 1), "a")
    await synthesis.stream(speaker.speech("b", 1), "b")


async def test_a_stream_that_nobody_reads_gives_its_place_to_another_but_not_one_that_is_read() -> (
    None
):
    now = 0.0
    admission = Admission(running=2, waiting=8)
    synthesis = Synthesis(admission, SpeechLimits(streams=1), lambda: now)
    speech = Speech(lambda: iter([np.zeros(100, np.float32)] * 3), 24_000)

    unread = await synthesis.stream(speech)
    with pytest.raises(OverloadedError):
        await synthesis.stream(speech)
    now = 10.0
    read = await synthesis.stream(speech)

    assert b"".join([piece async for piece in read.read()]) == bytes(600)
    with pytest.raises(SlowReaderError):
        [piece async for piece in unread.read()]


async def test_speech_that_turns_out_to_be_longer_ends_at_the_limit() -> None:
    speaker, limits = TurnSpeaker(), SpeechLimits(seconds=0.55)
    synthesis = Synthesis(Admission(running=1, waiting=0), limits)
    speaker.goes_on.release(SENTENCES)

    with pytest.raises(TextError, match="Send it in parts"):
        await synthesis.speak([speaker.speech("long", SENTENCES)], is_left)

    assert len(speaker.spoken) == 6
