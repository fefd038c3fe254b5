"""Clients with keys of their own share what is spoken at once."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from conversion.admission import Admission
from functions.compat.speech.synthesis import Speech, SpeechLimits, Synthesis
from shared.http.push import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from speech.signal.arrays import Samples

SENTENCES = 20


class Speaker:
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


async def is_left() -> bool:
    return False


async def _speak_some_way(
    synthesis: Synthesis, speaker: Speaker, way: str, client: str | None
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
@pytest.mark.parametrize("client", ["another", "the same", None])
async def test_a_short_text_waits_for_a_sentence_of_the_long_ones_whosever_they_are(
    way: str, client: str | None
) -> None:
    speaker, synthesis = Speaker(), Synthesis(Admission(running=1, waiting=64), SpeechLimits())
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
    speaker, limits = Speaker(), SpeechLimits(ahead_seconds=0.5)
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
    speaker, limits = Speaker(), SpeechLimits(streams=4)
    synthesis = Synthesis(Admission(running=8, waiting=8), limits)
    for _ in range(3):
        speaker.goes_on.release()
    for _ in range(2):
        await synthesis.stream(speaker.speech("a", 1), "a")

    with pytest.raises(OverloadedError, match="of this client"):
        await synthesis.stream(speaker.speech("a", 1), "a")
    await synthesis.stream(speaker.speech("b", 1), "b")
