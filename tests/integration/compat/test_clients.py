"""Clients as they come from the package indexes speak to the service; only the address is ours."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import subprocess
import wave
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import openai
import pytest
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from vvclient import Client

from functions.compat.voicevox.app import VERSION
from shared.speech.results.audio_files import write_wav
from tests.integration.compat.conftest import compat_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

PACKAGE = Path(__file__).parent / "npm"
SECONDS = 120
KEY = "0123456789abcdef"
TEXT = "こんにちは。今日はとてもいい天気ですね。散歩に行きましょう。"


def run_node(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script with npm's packages, and return what it prints."""
    if shutil.which("npm") is None:
        pytest.skip("the npm clients need npm, which is not installed")
    if not (PACKAGE / "node_modules" / "openai").is_dir():
        command = ["npm", "ci", "--silent"]
        subprocess.run(command, cwd=PACKAGE, check=True, timeout=SECONDS)
    ended = subprocess.run(
        ["node", script, *arguments],  # noqa: S607 - found on the PATH
        cwd=PACKAGE,
        check=True,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


def samples_of(content: bytes) -> tuple[NDArray[np.int16], int]:
    """The samples of a WAV file, also of one of unknown length."""
    rate = int.from_bytes(content[24:28], "little")
    return np.frombuffer(content[content.index(b"data") + 8 :], "<i2"), rate


@pytest.fixture
def speech(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def changer(address: str) -> Iterator[ElevenLabs]:
    with voice_changer(address) as client:
        yield client


@contextmanager
def voice_changer(address: str, key: str = KEY) -> Iterator[ElevenLabs]:
    with httpx.Client(timeout=SECONDS) as connections:
        yield ElevenLabs(base_url=address, api_key=key, httpx_client=connections)


async def test_clients_of_voicevox_ask_and_hear(address: str) -> None:
    async with httpx.AsyncClient(base_url=address) as plain:
        speaker = (await plain.get("/speakers")).json()[0]
        style = speaker["styles"][0]["id"]
        word = {"surface": "卍丸", "pronunciation": "マンジマル", "accent_type": "1"}
        await plain.post("/user_dict_word", params=word)
    async with Client(address) as client:
        assert await client.fetch_engine_version() == VERSION
        assert await client.fetch_core_versions() == [VERSION]
        await client.init_speaker(style)
        assert await client.is_inited_speaker(style)
        query = await client.create_audio_query("卍丸です。", style)
        sound = await query.synthesis(style)

    phrases = query.data["accent_phrases"]
    morae = [mora["text"] for phrase in phrases for mora in phrase["moras"]]
    assert morae[:5] == ["マ", "ン", "ジ", "マ", "ル"]
    with wave.open(io.BytesIO(sound)) as file:
        assert file.getframerate() == 24_000
        assert 0.7 < file.getnframes() / 24_000 < 4.0
    assert b"Synthetic speech" in sound[:400]


async def test_the_npm_client_of_voicevox_asks_and_hears(address: str) -> None:
    seen = await asyncio.to_thread(run_node, "visit.cjs", address)

    assert (seen["speaker"], seen["added"], seen["presets"]) == ("ひな", 7, ["fast"])
    assert seen["left"] == 0
    assert 0 < int(str(seen["fastBytes"])) < 0.8 * int(str(seen["bytes"]))


def test_openais_package_speaks(speech: openai.OpenAI) -> None:
    whole = speech.audio.speech.create(
        model="tts-1", voice="mei", input=TEXT, response_format="wav"
    )
    samples, rate = samples_of(whole.content)

    assert [model.id for model in speech.models.list()][:2] == ["tts-1", "tts-1-hd"]
    assert rate == 24_000
    assert 2.5 < len(samples) / rate < 8.0
    assert np.abs(samples.astype(int)).max() > 5_000
    raw = speech.audio.speech.create(
        model="tts-1", voice="mei", input=TEXT, response_format="pcm", speed=2.0
    )
    assert len(raw.content) < 0.7 * 2 * len(samples)


def test_openais_package_understands_what_was_wrong(speech: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="choose one of hina, mei") as voice:
        speech.audio.speech.create(model="tts-1", voice="nobody", input=TEXT)
    with pytest.raises(openai.BadRequestError, match="write it in Japanese") as text:
        speech.audio.speech.create(model="tts-1", voice="mei", input="Привет")

    assert (voice.value.param, text.value.param) == ("voice", "input")
    assert text.value.code == "text_unreadable"


async def test_livekits_plugin_for_openai_speaks(address: str) -> None:
    # Imported here: it takes 2 s, in every process that collects tests.
    from livekit.plugins import openai as livekit  # noqa: PLC0415

    tts = livekit.TTS(base_url=f"{address}/v1", api_key=KEY, model="tts-1", voice="ned")
    async with tts.synthesize(TEXT) as stream:
        frames = [answer.frame async for answer in stream]
    await tts.aclose()

    seconds = sum(frame.samples_per_channel for frame in frames) / frames[0].sample_rate
    loudest = max(np.abs(np.asarray(frame.data).astype(int)).max() for frame in frames)
    assert 2.5 < seconds < 8.0
    assert loudest > 5_000


async def test_openais_npm_package_speaks(address: str) -> None:
    seen = await asyncio.to_thread(run_node, "speak.mjs", address, KEY)

    assert seen["models"][0] == "tts-1"
    assert seen["bytes"] > 50_000
    assert seen["refused"] == {"status": 400, "param": "voice"}


def test_elevenlabs_package_changes_a_voice(changer: ElevenLabs, speech: openai.OpenAI) -> None:
    spoken = speech.audio.speech.create(
        model="tts-1", voice="mei", input=TEXT, response_format="wav"
    ).content
    samples, rate = samples_of(spoken)

    assert "ned" in [voice.voice_id for voice in changer.voices.get_all().voices]
    assert "ned" in [voice.voice_id for voice in changer.voices.search().voices]
    first = b"".join(
        changer.speech_to_speech.convert(
            "ned", audio=io.BytesIO(spoken), output_format="pcm_24000", seed=7
        )
    )
    again = b"".join(
        changer.speech_to_speech.stream(
            "ned",
            audio=io.BytesIO(spoken),
            output_format="pcm_24000",
            seed=7,
            remove_background_noise=True,
        )
    )

    assert first == again
    assert len(first) == pytest.approx(2 * len(samples) * 24_000 / rate, abs=4)
    assert np.abs(np.frombuffer(first, "<i2").astype(int)).max() > 5_000


def test_elevenlabs_package_speaks_a_text(changer: ElevenLabs) -> None:
    whole, streamed = (
        b"".join(
            act(
                "mei",
                text=TEXT,
                output_format="pcm_24000",
                model_id="eleven_flash_v2_5",
                voice_settings={"stability": 0.4, "speed": 1.1},
                seed=5,
            )
        )
        for act in (changer.text_to_speech.convert, changer.text_to_speech.stream)
    )
    file = b"".join(changer.text_to_speech.convert("mei", text=TEXT))
    with pytest.raises(ApiError) as refused:
        b"".join(changer.text_to_speech.convert("mei", text="안녕하세요"))

    assert whole == streamed
    assert 3 < len(whole) / 48_000 < 12
    assert file[:3] == b"ID3"
    assert refused.value.body["detail"]["status"] == "text_unreadable"
    models = changer.models.list()
    assert [each.model_id for each in models if each.can_do_text_to_speech]
    assert next(each.language_id for each in models[0].languages or []) == "ja"
    assert "mei" in [voice.voice_id for voice in changer.voices.get_all().voices]


def test_elevenlabs_package_understands_what_was_wrong(address: str) -> None:
    noise = b"no recording at all" * 99
    for voice, status, code in (
        ("ned", 400, "unsupported_format"),
        ("nobody", 404, "voice_not_found"),
    ):
        with voice_changer(address) as client, pytest.raises(ApiError) as refused:
            b"".join(client.speech_to_speech.convert(voice, audio=io.BytesIO(noise)))
        assert refused.value.status_code == status
        assert refused.value.body["detail"]["status"] == code


def test_a_client_that_was_refused_with_a_long_recording_asks_again_on_the_same_connection(
    address: str,
) -> None:
    recording = write_wav(np.zeros(24_000 * 40, np.float32), 24_000)
    with httpx.Client(base_url=address, timeout=20) as client:
        for voice in ("nobody", "ned", "nobody"):
            refused = client.post(
                f"/v1/speech-to-speech/{voice}?output_format=mp3", files={"audio": recording}
            )
            assert refused.status_code in {404, 422}
        assert client.get("/v1/voices").status_code == 200


async def test_each_client_sends_the_key_that_the_service_asks_for() -> None:
    with compat_process(VOICEVOX_KEY=KEY, HOST="127.0.0.1") as address:
        for key, is_taken in ((KEY, True), ("another key of sixteen", False)):
            with openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as speech:
                if is_taken:
                    assert speech.models.list().data
                else:
                    with pytest.raises(openai.AuthenticationError):
                        speech.models.list()
            with voice_changer(address, key) as changer:
                if is_taken:
                    assert changer.voices.get_all().voices
                else:
                    with pytest.raises(ApiError) as refused:
                        changer.voices.get_all()
                    assert refused.value.status_code == 401
            async with Client(address.replace("//", f"//bot:{key}@")) as engine:
                if is_taken:
                    assert await engine.fetch_engine_version() == VERSION
