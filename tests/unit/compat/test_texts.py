from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from functions.compat.service.encoders import Codec, SoundFormat
from functions.compat.service.synthesis import SpeechLimits, SpokenStream, Synthesis
from functions.compat.service.texts import (
    estimate_long,
    speak_long,
    speak_text_stream,
    speech_of,
)
from shared.container.admission import Admission
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
