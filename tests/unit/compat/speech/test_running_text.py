from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from conversion.admission import Admission
from functions.compat.speech.formats import Codec, SoundFormat
from functions.compat.speech.running_text import LONGEST_WAITING, Sentences, speak_running
from functions.compat.speech.synthesis import SpeechLimits, Synthesis
from functions.compat.speech.voices import TextVoice
from speech.engines.interface.text_engine import SpeechOptions, TextError, nothing_to_say
from tests.support.speakers import RATE, a_speaker
from tests.support.speakers import Sentences as Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from functions.compat.speech.running_text import SpokenPiece
    from speech.signal.arrays import Samples

PCM = SoundFormat(Codec.PCM, RATE)


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
    collected = Sentences()

    found = [sentence for token in tokens for sentence in collected.push(token)]

    assert found == whole
    assert collected.finish() == rest


def test_a_text_without_an_end_is_spoken_up_to_its_last_comma() -> None:
    collected = Sentences()

    found = collected.push("あ" * 300 + "、" + "い" * 300)
    found += collected.push("う" * 500)

    assert found[0] == "あ" * 300 + "、"
    assert all(len(each) <= LONGEST_WAITING for each in found)
    assert len("".join([*found, *collected.finish()])) == 1101


async def spoken(
    engine: Engine,
    sentences: Iterable[str],
    limits: SpeechLimits | None = None,
    whole: str | None = None,
) -> list[SpokenPiece]:
    async def come() -> AsyncIterator[str]:
        for sentence in sentences:
            yield sentence

    character = a_speaker("mei", engine)
    assert character.text_engine is not None
    voice = TextVoice("mei", character, character.text_engine)
    synthesis = Synthesis(Admission(running=1, waiting=0), limits or SpeechLimits())
    running = speak_running(synthesis, voice, come(), SpeechOptions(speed=2.0), PCM, whole=whole)
    async with aclosing(running) as pieces:
        return [piece async for piece in pieces]


async def test_sentences_are_spoken_one_after_the_other_with_a_pause() -> None:
    engine = Engine()

    pieces = await spoken(engine, ["はい。", "！！", "いいえ。"])

    assert [piece.sentence for piece in pieces] == ["はい。", "いいえ。"]
    assert [piece.begin for piece in pieces] == [0.0, 0.1]
    assert [options.silence_before for options in engine.asked] == [0.1, 0.225]


async def test_all_sentences_together_take_at_most_the_limit() -> None:
    engine = Engine()

    with pytest.raises(TextError, match="Send it in parts"):
        await spoken(engine, ["はい。"] * 100, SpeechLimits(seconds=0.55))

    assert len(engine.spoken) == 5


async def test_a_sentence_that_cannot_be_read_is_passed_over_as_within_a_text() -> None:
    pieces = await spoken(Korean(), ["안녕하세요。", "はい。", "안녕하세요。", "いいえ。"])

    assert [piece.sentence for piece in pieces] == ["はい。", "いいえ。"]


async def test_a_text_of_which_no_sentence_can_be_read_is_refused() -> None:
    with pytest.raises(TextError, match="script"):
        await spoken(Korean(), ["안녕하세요。", "！"])


async def test_a_whole_text_that_is_too_long_is_refused_before_anything_is_spoken() -> None:
    engine = Engine()

    with pytest.raises(TextError, match="Send it in parts"):
        await spoken(engine, ["はい。"] * 10, SpeechLimits(seconds=0.95), whole="はい。" * 10)

    assert engine.spoken == []


@dataclass
class Korean(Engine):
    """Cannot read Korean."""

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        if "안" in text:
            raise nothing_to_say(text)
        return super().speak(text, options)
