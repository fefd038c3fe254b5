"""Speech ends with the piece under way if nobody waits for it; long texts are spoken in parts."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from functions.compat.service.encoders import Codec, SoundFormat
from functions.compat.service.synthesis import (
    ClientLeftError,
    SlowReaderError,
    Speech,
    SpeechLimits,
    SpokenStream,
    Synthesis,
)
from functions.compat.service.texts import (
    estimate_long,
    speak_long,
    speak_text_stream,
    speech_of,
)
from shared.container.admission import Admission
from shared.runtime.push import OverloadedError
from shared.speech.engines.text_interface import (
    SpeechOptions,
    TextError,
    TextErrorCode,
    nothing_to_say,
)
from shared.speech.text.front_end import LONGEST_WAITING, SentenceSplitter
from tests.support.compat import text_speaker
from tests.support.speakers import RATE, Sentences

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from functions.compat.service.texts import SpokenPiece
    from shared.speech.signal.sound import Samples


async def is_left() -> bool:
    return False


SENTENCES = 20


class TurnSpeaker:
    """Speaks texts of some sentences, of which one is spoken each time it is let go on."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.spoken: list[str] = []
        self.goes_on = threading.Semaphore(0)

    def speech(self, name: str, sentences: int) -> Speech:
        def begin() -> Iterator[Samples]:
            self.begun.append(name)
            for _ in range(sentences):
                self.goes_on.acquire()
                self.spoken.append(name)
                yield np.zeros(2_400, np.float32)

        return Speech(begin, 24_000)


async def test_requests_that_are_cancelled_never_speak_in_more_threads_than_there_are_places() -> (
    None
):
    speaker = TurnSpeaker()
    admission = Admission(running=1, waiting=8)
    synthesis = Synthesis(admission, SpeechLimits())
    asked: set[asyncio.Task[object]] = set()
    for number in range(8):
        speech = speaker.speech(f"{number}", SENTENCES)
        asking = synthesis.speak([speech], is_left) if number % 2 else synthesis.stream(speech)
        asked.add(asyncio.create_task(asking))
        await asyncio.sleep(0.02 if number else 0.2)
        for each in asked:
            each.cancel()
    await asyncio.sleep(0.05)
    begun = list(speaker.begun)
    speaker.goes_on.release(1_000)
    async with asyncio.timeout(10):
        await asyncio.wait(asked)
        async with admission.turn():  # its place is free again
            pass

    assert begun == ["0"]
    assert speaker.spoken == ["0"]


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


async def test_a_slow_reader_gives_its_place_back_and_nobody_speaks_for_a_client_that_left() -> (
    None
):
    speaker, limits = TurnSpeaker(), SpeechLimits(buffered_bytes=4_000)
    synthesis = Synthesis(Admission(running=1, waiting=0), limits)
    speaker.goes_on.release(SENTENCES)
    unread = await synthesis.stream(speaker.speech("slow", 2))
    leaves = iter([False, True])

    async def is_gone() -> bool:
        return next(leaves)

    with pytest.raises(ClientLeftError):
        await synthesis.speak([speaker.speech("gone", 2)], is_gone)
    read = b"".join([piece async for piece in unread.read()])

    assert speaker.spoken == ["slow", "gone", "slow"]
    assert len(read) == 2 * 4_800


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


PCM = SoundFormat(Codec.PCM, RATE)


def test_a_text_longer_than_an_engine_takes_is_spoken_in_parts_with_pauses() -> None:
    engine = Sentences()
    text = "".join(f"これは{number}番目の文です。" for number in range(400))

    pieces = list(speak_long(engine, text, SpeechOptions(speed=2.0)))

    assert len(text) > 4000
    assert len(pieces) == 400
    assert engine.spoken == [each for each in text.split("。") if each]
    assert estimate_long(engine, text, SpeechOptions()) == pytest.approx(40.0)
    first, *middle, last = engine.asked
    assert (first.silence_before, first.silence_after) == (0.1, 0.0)
    assert {each.silence_before for each in (*middle, last)} == {0.225}
    assert (last.silence_after, {each.silence_after for each in middle}) == (0.1, {0.0})


def test_a_part_that_says_nothing_to_the_voice_is_passed_over() -> None:
    engine = JapaneseOnly()
    text = "안녕" * 1_000 + "\nはい。" + "안녕" * 1_000

    assert len(list(speak_long(engine, text, SpeechOptions()))) == 1
    assert engine.spoken == ["はい"]
    assert estimate_long(engine, text, SpeechOptions()) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("！？" * 2_000, TextErrorCode.NOTHING_TO_SAY),
        ("안녕" * 2_000, TextErrorCode.TEXT_UNREADABLE),
    ],
)
def test_a_text_that_says_nothing_to_the_voice_is_refused(text: str, code: TextErrorCode) -> None:
    engine = JapaneseOnly()

    with pytest.raises(TextError) as refused:
        list(speak_long(engine, text, SpeechOptions()))

    assert refused.value.code is code


async def test_a_stream_that_would_be_too_long_is_refused_before_anything_is_spoken() -> None:
    engine = Sentences()

    with pytest.raises(TextError, match="Send it in parts"):
        await _stream(engine, "はい。" * 100, SpeechLimits(seconds=9.9))

    assert engine.spoken == []


async def _stream(engine: Sentences, text: str, limits: SpeechLimits) -> SpokenStream:
    speech = speech_of(text_speaker(engine), text, SpeechOptions(), PCM)
    return await Synthesis(Admission(running=1, waiting=0), limits).stream(speech)


class JapaneseOnly(Sentences):
    """Reads Japanese alone, as the voices do."""

    def estimate(self, text: str, options: SpeechOptions) -> float:
        return super().estimate(self._readable(text), options)

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        return super().speak(self._readable(text), options)

    def _readable(self, text: str) -> str:
        readable = re.sub("[안녕하세요\n]", "", text)
        if not readable.strip("。"):
            raise nothing_to_say(text, self.languages)
        return readable


@pytest.mark.parametrize(
    ("tokens", "whole", "rest"),
    [
        (["こんに", "ちは", "。今日", "は"], ["こんにちは。"], ["今日は"]),
        (["はい！", "！いいえ"], ["はい！", "！"], ["いいえ"]),
        (["3", ".", "14 is", " pi. ", "Yes"], ["3.14 is pi."], [" Yes"]),
        (["一つ\n", "二つ\n\n", " "], ["一つ\n", "二つ\n\n"], []),
        (["「はい。」と", "言う。"], ["「はい。」", "と言う。"], []),
        (["。", "、", " "], ["。"], ["、 "]),
        (
            ["Mr. ", "Lee, e.g. J. S. Bach. ", "1. ", "Ok"],
            ["Mr. Lee, e.g. J. S. Bach."],
            [" 1. Ok"],
        ),
    ],
    ids=str,
)
def test_a_sentence_is_whole_at_its_end(
    tokens: list[str], whole: list[str], rest: list[str]
) -> None:
    collected = SentenceSplitter()

    found = [sentence for token in tokens for sentence in collected.push(token)]

    assert found == whole
    assert collected.finish() == rest


def test_a_text_without_an_end_is_spoken_up_to_its_last_comma() -> None:
    collected = SentenceSplitter()

    found = collected.push("あ" * 300 + "、" + "い" * 300)
    found += collected.push("う" * 500)

    assert found[0] == "あ" * 300 + "、"
    assert all(len(each) <= LONGEST_WAITING for each in found)
    assert len("".join([*found, *collected.finish()])) == 1101


async def spoken(
    engine: Sentences,
    sentences: Iterable[str],
    limits: SpeechLimits | None = None,
    whole: str | None = None,
) -> list[SpokenPiece]:
    async def come() -> AsyncIterator[str]:
        for sentence in sentences:
            yield sentence

    voice = text_speaker(engine)
    synthesis = Synthesis(Admission(running=1, waiting=0), limits or SpeechLimits())
    running = speak_text_stream(
        synthesis, voice, come(), SpeechOptions(speed=2.0), PCM, whole=whole
    )
    async with aclosing(running) as pieces:
        return [piece async for piece in pieces]


async def test_sentences_are_spoken_one_after_the_other_without_those_that_cannot_be_read() -> None:
    engine = JapaneseOnly()

    pieces = await spoken(engine, ["안녕하세요。", "はい。", "！！", "いいえ。"])

    assert [(piece.sentence, piece.unread, piece.begin) for piece in pieces] == [
        ("안녕하세요。", "Korean", 0.0),
        ("はい。", "", 0.0),
        ("いいえ。", "", 0.1),
    ]
    assert [options.silence_before for options in engine.asked] == [0.1, 0.225]


async def test_all_sentences_together_take_at_most_the_limit() -> None:
    engine = Sentences()

    with pytest.raises(TextError, match="Send it in parts"):
        await spoken(engine, ["はい。"] * 100, SpeechLimits(seconds=0.55))

    assert len(engine.spoken) == 5


async def test_a_whole_text_that_is_too_long_is_refused_before_anything_is_spoken() -> None:
    engine = Sentences()

    with pytest.raises(TextError, match="Send it in parts"):
        await spoken(engine, ["はい。"] * 10, SpeechLimits(seconds=0.95), whole="はい。" * 10)

    assert engine.spoken == []
