"""The result of a text."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from shared.container.admission import stay
from shared.conversion.stages import speak
from shared.conversion.stopwatch import ThreadWork
from shared.speech.engines.text_interface import SpeechOptions, TextError, TextErrorCode
from shared.voices.voice import ErrorCode, VoiceError
from tests.support.conversion import FakeSpeaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.speech.engines.interface import MarkedPiece
    from shared.speech.engines.text_interface import TextEngine
    from shared.speech.signal.sound import Samples

TEXT = "こんにちは。"


async def spoken(
    engine: FakeSpeaker | None, data: bytes = TEXT.encode(), **more: Any
) -> MarkedPiece:
    options = SpeechOptions(**more.get("asked", {}), seed=7)
    pass_on = more.get("pass_on", stay)
    speaker = cast("TextEngine | None", engine)
    return await speak(
        ThreadWork(), speaker, data, options, more.get("seconds", 9), pass_on=pass_on
    )


@pytest.mark.parametrize("code", list(TextErrorCode))
async def test_what_the_engine_refuses_fails_the_voice_with_its_code(code: TextErrorCode) -> None:
    with pytest.raises(VoiceError) as caught:
        await spoken(FakeSpeaker(error=TextError(code, "It says why.")))

    assert (caught.value.code, caught.value.message) == (ErrorCode(code.value), "It says why.")


async def test_a_character_without_a_voice_for_texts_is_named_so() -> None:
    with pytest.raises(VoiceError, match="text_not_taken"):
        await spoken(None)


async def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(VoiceError, match="text_unreadable"):
        await spoken(FakeSpeaker(), b"\xff\xfe")


async def test_speech_that_is_too_long_ends_after_the_piece_that_exceeds() -> None:
    engine = FakeSpeaker(pieces=50)

    with pytest.raises(VoiceError, match="more than 3 seconds"):
        await spoken(engine, seconds=3)

    assert engine.spoken == 4


async def test_a_text_whose_estimate_exceeds_the_limit_is_refused_before_it_is_spoken() -> None:
    engine = FakeSpeaker(pieces=50)
    engine.estimated = 3.1

    with pytest.raises(VoiceError, match="more than 3 seconds") as caught:
        await spoken(engine, seconds=3)

    assert caught.value.code == ErrorCode.TOO_LONG
    assert engine.spoken == 0


async def test_cancelling_ends_the_work_after_the_piece_under_way() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Waits(FakeSpeaker):
        def speak_pieces(self) -> Iterator[Samples]:
            for piece in super().speak_pieces():
                begun.set()
                go_on.wait()
                yield piece

    engine = Waits(pieces=50)
    work = asyncio.create_task(spoken(engine, seconds=100))
    await asyncio.to_thread(begun.wait)
    work.cancel()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert engine.spoken <= 2


async def test_others_may_run_between_two_pieces() -> None:
    engine, passed = FakeSpeaker(pieces=3), list[int]()

    async def pass_on() -> None:
        passed.append(engine.spoken)

    await spoken(engine, pass_on=pass_on)

    assert passed == [1, 2, 3]
