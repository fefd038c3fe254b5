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


@pytest.mark.parametrize("way", ["streamed", "whole"])
async def test_a_short_text_waits_for_one_sentence_of_somebody_elses_long_ones(way: str) -> None:
    speaker, synthesis = Speaker(), Synthesis(Admission(running=1, waiting=64), SpeechLimits())

    async def greedy() -> None:
        speech = speaker.speech("greedy", SENTENCES)
        if way == "streamed":
            stream = await synthesis.stream(speech, "greedy")
            async for _ in stream.read():
                pass
        else:
            await synthesis.speak([speech], is_left, "greedy")

    works = [asyncio.create_task(greedy()) for _ in range(5)]
    await asyncio.sleep(0.05)
    modest = asyncio.create_task(synthesis.speak([speaker.speech("modest", 2)], is_left, "modest"))
    await asyncio.sleep(0.05)
    for _ in range(5 * SENTENCES + 2):
        speaker.goes_on.release()
    await asyncio.gather(modest, *works)

    places = [place for place, name in enumerate(speaker.spoken) if name == "modest"]
    assert places[0] == 1
    assert places[1] <= 3
    assert speaker.spoken.count("greedy") == 5 * SENTENCES


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
