from __future__ import annotations

import asyncio
import base64
import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from functions.compat.openai import build
from functions.compat.service.texts import TextSpeakers
from shared.characters.bundle_files import BundleError
from shared.speech.engines.text_interface import SpeechOptions, TextError, TextErrorCode
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE
from tests.support.compat import call, client_of, synthesis_of, text_speaker, text_speakers
from tests.support.speakers import Sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from starlette.types import ASGIApp

    from shared.speech.signal.sound import Samples


def app_of(engine: Sentences, **limits: Any) -> ASGIApp:
    return build(text_speakers(engine, "mei", "ned"), synthesis_of(**limits))


async def ask(app: ASGIApp, **body: Any) -> httpx.Response:
    body = {"model": "tts-1", "voice": "mei", "input": "はい。", "response_format": "pcm"} | body
    async with client_of(app) as client:
        return await client.post("/v1/audio/speech", json=body)


async def test_speech_is_marked_as_synthetic_and_names_what_is_left_out_of_the_text() -> None:
    # Null means an option's default.
    whole = await ask(app_of(Sentences()), speed=None, stream_format=None, instructions=None)
    part = await ask(app_of(Sentences()), input="はい。Привет, мир. สวัสดี。いいえ。")

    assert whole.status_code == 200
    assert whole.headers["content-type"] == "audio/pcm"
    assert whole.headers["x-digital-source-type"] == DIGITAL_SOURCE_TYPE
    assert len(whole.content) == 2 * 2_400
    assert part.headers["x-unread-text"] == "Cyrillic, Thai"
    assert len(part.content) == 2 * 2 * 2_400


@pytest.mark.parametrize(
    "headers", [{"xi-api-key": "k"}, {"X-Fern-SDK-Name": "elevenlabs"}], ids=str
)
async def test_a_client_of_elevenlabs_gets_models_in_its_form(headers: dict[str, str]) -> None:
    async with client_of(app_of(Sentences())) as client:
        models = (await client.get("/v1/models", headers=headers)).json()
        others = (await client.get("/v1/models")).json()

    assert [each["can_do_text_to_speech"] for each in models] == [True, False]
    assert models[0]["languages"] == [{"language_id": "ja", "name": "Japanese"}]
    assert others["object"] == "list"


async def test_the_first_sentence_leaves_while_the_next_one_is_spoken() -> None:
    engine = Sentences(gate=threading.Semaphore(0))
    body = {"model": "x", "voice": "mei", "input": "はい。いいえ。", "response_format": "pcm"}
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(message: Any) -> None:
        if message.get("body"):
            await came.put(message["body"])

    calling = call(app_of(engine), "/v1/audio/speech", json.dumps(body).encode(), send)
    serving = asyncio.create_task(calling)
    async with asyncio.timeout(10):
        first = await came.get()
    spoken_by_then = list(engine.spoken)
    assert engine.gate is not None
    engine.gate.release()
    await serving

    assert spoken_by_then == ["はい"]
    assert len(first) >= 4_800
    assert engine.spoken == ["はい", "いいえ"]


async def test_events_hold_the_same_sound_and_end_with_one_that_says_so() -> None:
    engine = Sentences()
    sound = (await ask(app_of(engine), input="はい。いいえ。")).content

    answer = await ask(app_of(engine), input="はい。いいえ。", stream_format="sse")

    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n\n") if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    kinds = [event["type"] for event in events]
    assert kinds == ["speech.audio.delta", "speech.audio.delta", "speech.audio.done"]
    assert b"".join(base64.b64decode(each["audio"]) for each in events[:-1]) == sound
    assert events[-1]["usage"]["input_tokens"] == 7


@dataclass
class Refusing(Sentences):
    """Refuses a text after its first sentence."""

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        yield next(iter(super().speak(text, options)))
        raise TextError(TextErrorCode.TEXT_TOO_LONG, "Send it in parts.")


async def test_events_that_do_not_reach_the_end_of_the_speech_end_with_the_reason() -> None:
    answer = await ask(app_of(Refusing()), input="A、B。", stream_format="sse")

    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line]
    assert [event["type"] for event in events] == ["speech.audio.delta", "error"]
    error = events[-1]["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "text_too_long")
    assert "Send it in parts" in error["message"]


@pytest.mark.parametrize(
    ("body", "param", "sentence"),
    [
        ({"voice": "nobody"}, "voice", "choose one of mei, ned"),
        ({"response_format": "wma"}, "response_format", "choose one of mp3"),
        ({"input": ""}, "input", "at least 1 character"),
        ({"input": "あ" * 4_097}, "input", "at most 4096 characters"),
        ({"input": "あ。" * 2_000}, "input", "Send it in parts"),
        ({"input": "！？"}, "input", "nothing that can be spoken"),
        ({"speed": 4.5}, "speed", "less than or equal to 4"),
        ({"stream_format": "wav"}, "stream_format", "'audio' or 'sse'"),
        ({"model": None}, "model", "required"),
    ],
)
async def test_a_bad_request_is_refused_with_the_field_and_the_reason(
    body: dict[str, Any], param: str, sentence: str
) -> None:
    engine = Sentences()

    answer = await ask(app_of(engine, seconds=199.0), **body)

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert sentence in error["message"]
    assert not engine.spoken


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff"])
async def test_a_body_that_is_no_request_is_refused(content: bytes) -> None:
    async with client_of(app_of(Sentences())) as client:
        answer = await client.post("/v1/audio/speech", content=content)
        missing = await client.get("/v1/models/whisper-1")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert missing.json()["error"]["code"] == "model_not_found"


async def test_openais_own_voices_are_the_mapped_ones_or_the_first() -> None:
    known = text_speakers(Sentences(), "mei", "ned", aliases=("nova=ned",))
    app = build(known, synthesis_of())

    answers = [await ask(app, voice=voice) for voice in ("nova", "alloy", "ned", {"id": "mei"})]

    assert [answer.status_code for answer in answers] == [200] * 4
    found = known.find("nova")
    assert (found is not None, found and found.id) == (True, "ned")


def test_a_name_for_no_character_is_refused() -> None:
    for entry in ("nova=nobody", "nova"):
        with pytest.raises(BundleError, match="expected NAME=CHARACTER with one of mei, ned"):
            text_speakers(Sentences(), "mei", "ned", aliases=(entry,))


async def test_a_style_is_asked_for_behind_the_characters_id() -> None:
    engine = Sentences()
    styles = [text_speaker(engine), text_speaker(engine, 7, "happy")]

    await ask(build(TextSpeakers(styles, {}), synthesis_of()), voice="mei:happy")

    assert [options.style for options in engine.asked] == [7]
