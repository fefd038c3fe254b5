from __future__ import annotations

import asyncio
import io
import wave
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from functions.compat.elevenlabs import (
    MISSING_SECONDS,
    RecordingLimits,
    Recordings,
    build,
)
from functions.compat.long_recordings import convert_in_pieces
from functions.compat.service.keys import KeyLimits, Meter
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.service.texts import TextSpeakers, text_speakers_of
from shared.container.admission import Admission
from shared.speech.decoding.decoder import Decoder
from shared.speech.engines.interface import ConversionOptions
from shared.speech.results.audio_files import write_wav
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE
from tests.support.characters import a_manifest
from tests.support.compat import client_of
from tests.support.speakers import RATE, Mirror, Sentences, a_speaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx
    from numpy.typing import NDArray
    from starlette.types import ASGIApp

    from shared.characters.manifest import CharacterManifest


VOICE = (0.3 * np.sin(np.arange(3 * RATE) * (2 * np.pi * 220 / RATE))).astype(np.float32)
RECORDING = write_wav(VOICE, RATE)


@pytest.fixture
async def decoder() -> AsyncIterator[Decoder]:
    async with Decoder() as decoder:
        yield decoder


def app_of(
    decoder: Decoder | None = None,
    engine: Mirror | None = None,
    limits: RecordingLimits | None = None,
    admission: Admission | None = None,
    meter: Meter | None = None,
) -> ASGIApp:
    admission = admission or Admission(running=1, waiting=4)
    recordings = Recordings(cast("Decoder", decoder), admission, limits or RecordingLimits())
    characters = {"mei": a_speaker("mei", Sentences(), engine), "ned": a_speaker("ned")}
    speakers = TextSpeakers(text_speakers_of(characters), {})
    return build(characters, speakers, recordings, Synthesis(admission, SpeechLimits()), meter)


async def send(
    app: ASGIApp,
    audio: bytes | None = RECORDING,
    path: str = "/v1/speech-to-speech/mei/stream",
    output_format: str | None = "pcm_24000",
    **fields: str,
) -> httpx.Response:
    async with client_of(app) as client:
        return await client.post(
            path,
            params={} if output_format is None else {"output_format": output_format},
            data={"model_id": "eleven_multilingual_sts_v2", **fields},
            files={"other" if audio is None else "audio": ("voice.wav", audio or b"")},
        )


async def test_a_recording_comes_back_in_the_voice(decoder: Decoder) -> None:
    engine = Mirror()
    app, changer = app_of(decoder, engine), "/v1/speech-to-speech/mei"

    answers = [
        await send(app, path=path, seed="4294967295")
        for path in (changer, f"{changer}/stream", "/v1/voice-changer/mei")
    ]
    usual = await send(app, output_format=None)
    whole = await send(app, path=changer, output_format="wav_24000")

    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-digital-source-type"] == DIGITAL_SOURCE_TYPE
        samples = np.frombuffer(answer.content, np.int16) / 32_767
        np.testing.assert_allclose(samples, VOICE, atol=1e-3)
        assert MISSING_SECONDS not in answer.headers
    assert [options.seed for options in engine.asked] == [*[4_294_967_295] * 3, 0, 0]
    assert usual.headers["content-type"] == "audio/mpeg"
    assert len(usual.content) == pytest.approx(3 * 16_000, rel=0.1)
    with wave.open(io.BytesIO(whole.content)) as file:
        assert file.getnframes() == len(VOICE)
    assert b"Synthetic speech" in usual.content[:500]
    assert b"Synthetic speech" in whole.content[:500]


async def test_the_answer_to_a_damaged_recording_says_how_much_is_missing(decoder: Decoder) -> None:
    path = "/v1/speech-to-speech/mei"
    for output_format in ("pcm_24000", "wav_24000"):
        cut = await send(app_of(decoder), RECORDING[:-RATE], path=path, output_format=output_format)
        assert float(cut.headers[MISSING_SECONDS]) == pytest.approx(0.5, abs=0.02)


async def test_raw_samples_are_taken_as_they_are() -> None:
    raw = np.zeros(16_000, "<i2")
    raw[::80] = 9_000
    engine = Mirror(sample_rate=16_000)
    async with Decoder() as decoder:
        answer = await send(
            app_of(decoder, engine),
            raw.tobytes(),
            output_format="pcm_16000",
            file_format="pcm_s16le_16",
        )

    assert answer.status_code == 200, answer.text
    assert np.abs(np.frombuffer(answer.content, np.int16).astype(int) - raw).max() <= 1


UNDECODED: list[tuple[dict[str, Any], int, str]] = [
    ({"audio": None}, 422, "field 'audio'"),
    ({"audio": b"\1" * 33, "file_format": "pcm_s16le_16"}, 422, "16 bits"),
    ({"file_format": "pcm_f32"}, 422, "file_format"),
    ({"output_format": "mp3_1_1"}, 422, "mp3_44100_128"),
    ({"seed": "-1"}, 422, "seed"),
    ({"seed": "4294967296"}, 422, "seed"),
    ({"seed": "²"}, 422, "seed"),
    ({"seed": "9" * 5_000}, 422, "seed"),
    ({"remove_background_noise": "maybe"}, 422, "true or false"),
    ({"voice_settings": "{"}, 422, "Expected JSON"),
    ({"voice_settings": "[" * 30_000}, 422, "Expected JSON"),
    ({"path": "/v1/speech-to-speech/nobody"}, 404, "choose one of mei, ned"),
]


@pytest.mark.parametrize(
    ("changed", "status", "sentence"), UNDECODED, ids=lambda value: str(value)[:60]
)
async def test_a_request_that_makes_no_sense_is_refused_with_a_reason(
    changed: dict[str, Any], status: int, sentence: str
) -> None:
    answer = await send(app_of(), **changed)

    assert answer.status_code == status, answer.text
    assert sentence in answer.text


async def test_a_recording_that_cannot_be_converted_is_refused_with_a_reason(
    decoder: Decoder,
) -> None:
    engine = Mirror()
    for audio, code, limits in (
        (b"no recording at all" * 99, "unsupported_format", RecordingLimits()),
        (write_wav(VOICE * 0, RATE), "silent", RecordingLimits()),
        (write_wav(VOICE[:1000], RATE), "too_short", RecordingLimits()),
        (RECORDING, "too_long", RecordingLimits(max_seconds=2.0)),
        (RECORDING, "too_large", RecordingLimits(max_bytes=10_000)),
    ):
        answer = await send(app_of(decoder, engine, limits), audio)
        assert (answer.status_code, answer.json()["detail"]["status"]) == (400, code)
    assert not engine.asked


async def test_more_recordings_than_fit_or_than_a_key_may_have_are_sent_away(
    decoder: Decoder,
) -> None:
    meter, full = Meter(KeyLimits(seconds=0.01)), Admission(running=1, waiting=0)
    limited = await send(app_of(decoder, meter=meter))
    with full.admit():
        busy = [
            await send(app_of(limits=RecordingLimits(at_once=0))),
            await send(app_of(admission=full)),
        ]

    large = await send(app_of(limits=RecordingLimits(max_bytes=1_000)), bytes(2 << 20))

    assert (large.status_code, "send at most 1000 bytes" in large.text) == (413, True)
    assert (limited.status_code, limited.json()["detail"]["status"]) == (429, "quota_exceeded")
    assert not meter.usage()
    for answer in busy:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["detail"]["status"] == "system_busy"


async def test_a_recording_that_does_not_come_ends_and_keeps_nobody_from_speaking(
    decoder: Decoder,
) -> None:
    admission = Admission(running=1, waiting=0)
    app = app_of(decoder, limits=RecordingLimits(seconds_to_come=0.3), admission=admission)
    begun = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"--b\r\n"
        begun.set()
        await asyncio.Event().wait()

    async with client_of(app) as client:
        stalled = asyncio.create_task(
            client.post(
                "/v1/speech-to-speech/mei",
                content=body(),
                headers={"content-type": "multipart/form-data; boundary=b"},
            )
        )
        await begun.wait()
        spoken = await send(app)
        answer = await asyncio.wait_for(stalled, 20)

    assert spoken.status_code == 200
    assert (answer.status_code, "within 0.3 s" in answer.text) == (408, True)


async def speak(app: ASGIApp, path: str, **body: Any) -> httpx.Response:
    async with client_of(app) as client:
        return await client.post(f"/v1/text-to-speech/{path}", json={"text": "はい。"} | body)


@pytest.mark.parametrize("path", ["mei", "mei/stream"])
async def test_a_text_is_spoken_in_the_voice(path: str) -> None:
    settings = {"speed": 1.2, "stability": 0.5, "similarity_boost": 1, "use_speaker_boost": True}
    body = {"model_id": "eleven_turbo_v2_5", "voice_settings": settings, "previous_text": None}

    address = f"{path}?output_format=pcm_24000&optimize_streaming_latency=3"
    raw = await speak(app_of(), address, text="はい。いいえ。", seed=3, **body)
    file = await speak(app_of(), f"{path}?output_format=wav_24000", text="はい。안녕하세요。")
    usual = await speak(app_of(), path)

    assert raw.status_code == 200, raw.text
    assert len(raw.content) == 2 * 4_800
    assert raw.headers["x-digital-source-type"] == DIGITAL_SOURCE_TYPE
    assert "x-unread-text" not in raw.headers
    assert b"Synthetic speech" in file.content[:500]
    assert file.headers["x-unread-text"] == "Korean"
    assert usual.headers["content-type"] == "audio/mpeg"


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("nobody", {}, 404, "choose one of mei"),
        ("mei", {"text": ""}, 422, "text"),
        ("mei", {"text": "あ" * 10_001}, 422, "text"),
        ("mei", {"voice_settings": {"speed": 1e308}}, 422, "speed"),
        ("mei", {"seed": 1 << 32}, 422, "seed"),
        ("mei", {"language_code": "de"}, 400, "it reads Japanese"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_text_that_cannot_be_spoken_is_refused_with_a_reason(
    path: str, body: dict[str, Any], status: int, sentence: str
) -> None:
    answer = await speak(app_of(), path, **body)

    assert answer.status_code == status, answer.text
    assert sentence in answer.text


async def test_the_voices_are_listed_as_both_versions_of_the_api_do() -> None:
    async with client_of(app_of()) as client:
        listed = (await client.get("/v1/voices")).json()
        searched = (await client.get("/v2/voices")).json()
        one = (await client.get("/v1/voices/ned")).json()

    assert [each["voice_id"] for each in listed["voices"]] == ["mei", "ned"]
    assert (searched["voices"], searched["has_more"]) == (listed["voices"], False)
    assert (one["voice_id"], one["name"]) == ("ned", "Ned")


def a_voice(seconds: float, hertz: float = 110.0) -> NDArray[np.float32]:
    """Pulses like a voice's, in words of 0.7 s with pauses of 0.3 s."""
    time = np.arange(round(seconds * RATE)) / RATE
    saw = 2 * (time * hertz % 1.0) - 1
    words = np.clip(20 * (np.sin(2 * np.pi * time) + 0.6), 0.0, 1.0)
    return (0.2 * saw * words).astype(np.float32)


def test_a_short_recording_is_converted_in_one_piece_by_the_characters_own_policy() -> None:
    engine, voice = Mirror(), a_voice(9.9)

    pieces = list(convert_in_pieces(engine, a_manifest(), voice, RATE, ConversionOptions(seed=3)))

    assert len(pieces) == 1
    assert engine.asked == [ConversionOptions(None, 3)]


@pytest.mark.parametrize("seconds", [10.01, 33.333])
def test_a_long_recording_comes_back_without_seams(seconds: float) -> None:
    engine, voice = Mirror(), a_voice(seconds)

    pieces = list(convert_in_pieces(engine, a_manifest(), voice, RATE, ConversionOptions()))

    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 8.1 * RATE
    joined = np.concatenate(pieces)
    assert len(joined) == len(voice)
    np.testing.assert_allclose(joined, voice, atol=1e-6)


def test_all_pieces_are_moved_by_the_same_semitones_with_the_same_seed() -> None:
    engine = Mirror()

    list(convert_in_pieces(engine, a_manifest(), a_voice(40), RATE, ConversionOptions(seed=9)))

    (options,) = set(engine.asked)
    assert options.seed == 9
    # From 110 Hz to the character's 220 Hz.
    assert options.pitch_shift == pytest.approx(12.0, abs=0.2)


def test_semitones_that_are_asked_for_stay_and_silence_needs_none() -> None:
    engine, silence = Mirror(), np.zeros(12 * RATE, np.float32)

    list(convert_in_pieces(engine, a_manifest(), a_voice(12), RATE, ConversionOptions(-2.0)))
    list(convert_in_pieces(engine, a_manifest(), silence, RATE, ConversionOptions()))
    list(convert_in_pieces(engine, moved_by(3.0), a_voice(12), RATE, ConversionOptions()))

    assert {options.pitch_shift for options in engine.asked} == {-2.0, None}


def moved_by(semitones: float) -> CharacterManifest:
    """A character that always moves the pitch by as much."""
    manifest = a_manifest()
    assert manifest.pitch is not None
    pitch = manifest.pitch.model_copy(update={"policy": semitones})
    return manifest.model_copy(update={"pitch": pitch})
