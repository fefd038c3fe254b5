"""The PyPI package voicevox-client, as it is, speaks to the service over HTTP."""

from __future__ import annotations

import asyncio
import io
import wave
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyopenjtalk
import uvicorn
from vvclient import Client

from functions.convert.live.voicevox.app import Services, Settings, build
from functions.convert.live.voicevox.memory import Presets, UserDictionary
from functions.convert.live.voicevox.voices import OfferedSpeaker, OfferedStyle, Voices
from speech.engines.japanese import HtsVoice, JapaneseEngine
from speech.text.english import EnglishReader, read_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STYLE = 3


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    dictionary = UserDictionary()
    engine = JapaneseEngine(
        HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode())),
        dictionary,
        EnglishReader(dictionary, read_words(), dictionary.has),
        sample_rate=24_000,
    )
    speaker = OfferedSpeaker(
        "u", "メイ", "1", "CC BY 3.0", b"", (OfferedStyle(STYLE, "ノーマル", engine, 0),)
    )
    app = build(Settings("0.1.0"), Services(Voices([speaker]), Presets(), dictionary))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # uvicorn has no event for it
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running
        dictionary.close()


async def test_a_client_of_voicevox_asks_and_hears() -> None:
    async with served() as address, Client(address) as client:
        assert await client.fetch_engine_version() == "0.1.0"
        assert await client.fetch_core_versions() == ["0.1.0"]
        await client.init_speaker(STYLE)
        assert await client.is_inited_speaker(STYLE)
        query = await client.create_audio_query("こんにちは、世界。", STYLE)
        sound = await query.synthesis(STYLE)

    with wave.open(io.BytesIO(sound)) as file:
        assert file.getframerate() == 24_000
        assert 1.0 < file.getnframes() / 24_000 < 4.0
