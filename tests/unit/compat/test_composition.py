"""What all dialects share: one limit of what is done at once, and the characters of one folder."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
import wave
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyopenjtalk
import pytest
from wyoming.client import AsyncTcpClient
from wyoming.tts import Synthesize

from functions.compat.character_watch import CharacterWatch
from functions.compat.composition import Compat, SpeechResources, build
from functions.compat.service.http_messages import PIECE_BYTES
from functions.compat.settings import DialectSettings
from functions.compat.text_socket import PATH
from functions.compat.voicevox import queries
from functions.compat.voicevox.user_data import UserData
from functions.live import main as live
from functions.live_and_compat.main import build_with_compat
from functions.live_and_compat.settings import LiveAndCompatSettings
from shared.characters.bundle_files import BundleError
from shared.container.admission import Admission
from shared.conversion.composition import ConversionServices
from shared.conversion.start import ConversionTools
from shared.runtime.settings import Switch
from shared.speech.decoding.decoder import Decoder
from shared.speech.engines.japanese import HtsVoice, JapaneseEngine
from shared.speech.results.audio_files import write_wav
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE
from shared.speech.text.front_end import FrontEnd
from tests.support.asgi_server import served
from tests.support.compat import call, client_of, heard, say, socket_client
from tests.support.speakers import Sentences, a_speaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from shared.conversion.characters import LoadedCharacter

TONE = (0.3 * np.sin(np.arange(48_000) / 30)).astype(np.float32)
RECORDING = write_wav(TONE, 24_000)
MULTIPLE = 3
QUERY = queries.query_of([], "はい。").model_dump(by_alias=True)


@pytest.fixture(scope="module")
def mei() -> LoadedCharacter:
    front_end = FrontEnd()
    voice = HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode()))
    engine = JapaneseEngine(voice, front_end, sample_rate=24_000)
    return a_speaker("mei", cast("Any", engine))


@pytest.fixture
async def decoder() -> AsyncIterator[Decoder]:
    async with Decoder() as decoder:
        yield decoder


def compat_of(mei: LoadedCharacter, decoder: Decoder | None, admission: Admission) -> Compat:
    decodes = cast("Decoder", decoder)
    resources = SpeechResources({"mei": mei}, UserData.open(), decodes, admission, Path())
    return build(DialectSettings(), resources, ("*",))


async def ask_all(client: httpx.AsyncClient) -> dict[str, httpx.Response]:
    """Ask for speech, and for what is spoken, in every way that HTTP has."""
    style = {"speaker": (await client.get("/speakers")).json()[0]["styles"][0]["id"]}
    text, query = {"text": "はい。"}, QUERY
    said = {"model": "tts-1", "voice": "mei", "input": "はい。"}
    recording = {"audio": ("hello.wav", RECORDING)}
    changer = "/v1/speech-to-speech/mei"
    return {
        "audio_query": await client.post("/audio_query", params=style | text),
        "accent_phrases": await client.post("/accent_phrases", params=style | text),
        "mora_data": await client.post("/mora_data", params=style, json=[]),
        "synthesis": await client.post("/synthesis", params=style, json=query),
        "streaming_synthesis": await client.post("/streaming_synthesis", params=style, json=query),
        "multi_synthesis": await client.post(
            "/multi_synthesis", params=style, json=[query] * MULTIPLE
        ),
        "openai": await client.post("/v1/audio/speech", json=said),
        "openai pcm": await client.post("/v1/audio/speech", json=said | {"response_format": "pcm"}),
        "openai opus": await client.post(
            "/v1/audio/speech", json=said | {"response_format": "opus"}
        ),
        "elevenlabs": await client.post(changer, files=recording),
        "elevenlabs wav": await client.post(
            changer, params={"output_format": "wav_24000"}, files=recording
        ),
    }


async def say_in_pieces(port: int) -> str:
    """The kind of the first message after it has begun, or the code of an error."""
    async with asyncio.timeout(10), socket_client(f"ws://127.0.0.1:{port}{PATH}") as client:
        await say(client, "begin")
        await say(client, "text", text="はい。")
        await client.recv()
        answer = json.loads(await client.recv())
        await say(client, "cancel")
        await heard(client, "cancelled")
        return str(answer.get("code", answer["type"]))


async def say_in_wyoming(port: int) -> str:
    """The kind of the last event."""
    async with asyncio.timeout(10), AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Synthesize("はい。").event())
        while (event := await client.read_event()) and event.type not in ("audio-stop", "error"):
            pass
        assert event is not None
        return str(event.type)


@asynccontextmanager
async def all_places(admission: Admission) -> AsyncIterator[None]:
    """Take both places, as soon as what was cancelled has ended its piece."""
    with ExitStack() as stack:
        async with asyncio.timeout(10), admission.turn():
            for _ in range(2):
                stack.enter_context(admission.admit())
        yield


async def test_no_dialect_has_places_beside_those_of_the_process(
    mei: LoadedCharacter, decoder: Decoder
) -> None:
    admission = Admission(running=1, waiting=1)
    compat = compat_of(mei, decoder, admission)
    async with (
        served(compat.app) as port,
        compat.wyoming.listen("127.0.0.1", 0) as wyoming_port,
        client_of(compat.app) as client,
    ):
        free = await ask_all(client)
        spoken = await say_in_pieces(port), await say_in_wyoming(wyoming_port)
        async with all_places(admission):
            full = await ask_all(client)
            refused = await say_in_pieces(port), await say_in_wyoming(wyoming_port)

    assert {name: answer.status_code for name, answer in free.items()} == dict.fromkeys(free, 200)
    assert spoken == ("sentence", "audio-stop")
    assert {name: answer.status_code for name, answer in full.items()} == dict.fromkeys(full, 503)
    assert refused == ("busy", "error")


@pytest.mark.parametrize(("is_alone", "status"), [(Switch.ON, 422), (Switch.OFF, 501)])
async def test_the_dialects_beside_live_share_its_places_and_the_only_instance_keeps_presets(
    mei: LoadedCharacter, monkeypatch: pytest.MonkeyPatch, is_alone: Switch, status: int
) -> None:
    config = LiveAndCompatSettings.model_construct(
        host="127.0.0.1",
        concurrency=1,
        sockets=1,
        max_speech_seconds=60.0,
        characters_dir=Path(),
        allowed_origins=(),
        voicevox_alone=is_alone,
    )
    nothing: Any = None
    services = ConversionServices(nothing, ConversionTools(nothing, {"mei": mei}))
    given: list[Any] = []
    monkeypatch.setattr(live, "build", lambda *arguments: given.extend(arguments))
    said = {"model": "tts-1", "voice": "mei", "input": "はい。"}
    async with (
        build_with_compat(config, services, UserData.open()),
        client_of(given[3]) as client,
    ):
        free = await client.post("/v1/audio/speech", json=said)
        # Those that live has admitted, and as many as may wait.
        with given[2].admit(), given[2].admit():
            full = await client.post("/v1/audio/speech", json=said)
        preset = await client.post("/add_preset", json={})

    assert (free.status_code, full.status_code, preset.status_code) == (200, 503, status)


@pytest.mark.parametrize(
    ("route", "status", "field"),
    [
        ("POST /v1/chat/completions", 404, "error"),
        ("GET /v1/audio/speech", 405, "error"),
        ("POST /v1/text-to-speech/ned/with-timestamps", 404, "detail"),
        ("GET /v1/speech-to-speech/ned", 405, "detail"),
    ],
)
async def test_what_is_not_offered_is_refused_in_the_form_that_the_client_understands(
    mei: LoadedCharacter, route: str, status: int, field: str
) -> None:
    compat = compat_of(mei, None, Admission(running=1, waiting=4))

    async with client_of(compat.app) as client:
        answer = await client.request(*route.split())

    assert answer.status_code == status
    assert f"There is no {route} here" in answer.json()[field]["message"]
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/speech-to-speech/mei", "/synthesis"])
async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault_of_ours(
    mei: LoadedCharacter, path: str
) -> None:
    """A trace of the stack in the log for each would let anybody fill it."""
    compat = compat_of(mei, None, Admission(running=2, waiting=2))
    beginning = b"--b\r\n" if "speech-to-speech" in path else b"{"

    async def send(_: Any) -> None:
        pass

    async with asyncio.timeout(5):
        address = f"{path}?speaker=0&override=true"
        await call(compat.app, address, beginning, send, stays=0, more_body=True)


async def test_every_answer_that_holds_speech_says_in_its_header_that_it_is_synthetic(
    mei: LoadedCharacter, decoder: Decoder
) -> None:
    compat = compat_of(mei, decoder, Admission(running=1, waiting=4))
    sizes: list[int] = []

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        async def count(message: Any) -> None:
            sizes.append(len(message.get("body", b"")))
            await send(message)

        await compat.app(scope, receive, count)

    async with client_of(counted) as client:
        answers = await ask_all(client)
        # Somebody else's file, and one of ours.
        waves = [write_wav(np.zeros(2_400, np.float32), 24_000), answers["synthesis"].content]
        joined = [base64.b64encode(each).decode() for each in waves]
        answers["connect_waves"] = await client.post("/connect_waves", json=joined)

    speech = {
        name: each.headers.get("x-digital-source-type")
        for name, each in answers.items()
        if not each.headers["content-type"].startswith("application/json")
    }
    assert max(sizes) == PIECE_BYTES, "an answer is not sent in pieces that a reader must take"
    assert len(speech) == 9
    assert set(speech.values()) == {DIGITAL_SOURCE_TYPE}
    content = answers["connect_waves"].content
    assert int.from_bytes(content[4:8], "little") == len(content) - 8
    assert content.count(DIGITAL_SOURCE_TYPE.encode()) == waves[1].count(
        DIGITAL_SOURCE_TYPE.encode()
    )
    with wave.open(io.BytesIO(content)) as both, wave.open(io.BytesIO(waves[1])) as ours:
        assert both.getnframes() == ours.getnframes() + 2_400


def load(folder: Path) -> LoadedCharacter:
    """Stands for the loading of a bundle, which has tests of its own."""
    if (folder / "character.json").read_text() == "broken":
        raise BundleError("character.json: expected JSON.")
    return a_speaker(folder.name, Sentences())


def put(characters: Path, name: str, content: str) -> None:
    (characters / name).mkdir(exist_ok=True)
    (characters / name / "character.json").write_text(content)


@pytest.fixture
def compat(tmp_path: Path) -> Compat:
    resources = SpeechResources(
        {"mei": a_speaker("mei", Sentences())},
        UserData.open(),
        cast("Decoder", None),
        Admission(running=1, waiting=4),
        tmp_path,
    )
    return build(DialectSettings(), resources, ("*",))


async def offered(compat: Compat) -> list[set[str]]:
    """The characters that clients of OpenAI, ElevenLabs and VOICEVOX are offered."""
    async with client_of(compat.app) as client:
        openai = (await client.get("/v1/audio/voices")).json()["voices"]
        elevenlabs = (await client.get("/v1/voices")).json()["voices"]
        speakers = (await client.get("/speakers")).json()
    assert len(speakers) == len(openai)
    return [{each["id"] for each in openai}, {each["voice_id"] for each in elevenlabs}]


async def test_a_complete_folder_is_offered_by_all_and_its_revision_stays_if_the_next_is_broken(
    compat: Compat, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = CharacterWatch(tmp_path, load)
    put(tmp_path, "ada", "{}")
    await watch.look(compat.offered)
    assert await offered(compat) == [{"mei"}] * 2
    await watch.look(compat.offered)
    assert await offered(compat) == [{"mei", "ada"}] * 2

    put(tmp_path, "ada", "broken")
    put(tmp_path, "bob", "broken")
    with caplog.at_level("INFO"):
        await watch.look(compat.offered)
        await watch.look(compat.offered)
    assert await offered(compat) == [{"mei", "ada"}] * 2
    refused = [each.getMessage() for each in caplog.records if "expected JSON" in each.getMessage()]
    assert [each.split()[1] for each in refused] == ["ada", "bob"]

    shutil.rmtree(tmp_path / "ada")
    await watch.look(compat.offered)
    assert await offered(compat) == [{"mei"}] * 2


async def test_what_was_there_but_is_not_offered_is_taken_too(
    compat: Compat, tmp_path: Path
) -> None:
    put(tmp_path, "ada", "{}")
    put(tmp_path, "bob", "{}")
    watch = CharacterWatch(tmp_path, load, {"mei", "bob"})

    await watch.look(compat.offered)

    assert await offered(compat) == [{"mei", "ada"}] * 2


async def test_the_last_character_that_takes_text_stays(compat: Compat, tmp_path: Path) -> None:
    watch = CharacterWatch(tmp_path, load)
    put(tmp_path, "ada", "{}")
    for _ in range(2):
        await watch.look(compat.offered)
    compat.offered.remove("mei")
    shutil.rmtree(tmp_path / "ada")

    await watch.look(compat.offered)

    assert await offered(compat) == [{"ada"}] * 2
