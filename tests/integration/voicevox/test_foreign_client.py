"""Clients of VOICEVOX, as they are, speak to the service over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import subprocess
import wave
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from vvclient import Client

from functions.compat.main import build_app, load
from functions.compat.settings import CompatSettings
from functions.compat.voicevox.app import VERSION
from functions.compat.voicevox.memory.kept import Kept
from speech.decoding.decoder import Decoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PACKAGE = Path(__file__).parent / "npm"
SECONDS = 120


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Serve the characters of the image."""
    config, kept = CompatSettings(workers=1), Kept.opened()
    app = build_app(config, load(config, kept), kept, Decoder())
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
        kept.dictionary.close()


def run_node(address: str) -> dict[str, object]:
    """Visit the service with the npm package."""
    if not (PACKAGE / "node_modules").is_dir():
        command = ["npm", "ci", "--silent"]
        subprocess.run(command, cwd=PACKAGE, check=True, timeout=SECONDS)
    command = ["node", "visit.cjs", address]
    ended = subprocess.run(
        command, cwd=PACKAGE, check=True, timeout=SECONDS, capture_output=True, text=True
    )
    seen: dict[str, object] = json.loads(ended.stdout)
    return seen


async def test_clients_of_voicevox_ask_and_hear() -> None:
    async with served() as address:
        async with httpx.AsyncClient(base_url=address) as plain:
            speakers = (await plain.get("/speakers")).json()
            assert [speaker["name"] for speaker in speakers] == ["メイ", "ひな", "ネッド"]
            style = speakers[0]["styles"][0]["id"]
            word = {"surface": "卍丸", "pronunciation": "マンジマル", "accent_type": "1"}
            await plain.post("/user_dict_word", params=word)
        async with Client(address) as client:
            assert await client.fetch_engine_version() == VERSION
            assert await client.fetch_core_versions() == [VERSION]
            await client.init_speaker(style)
            assert await client.is_inited_speaker(style)
            query = await client.create_audio_query("卍丸です。", style)
            sound = await query.synthesis(style)
        seen = await asyncio.to_thread(run_node, address) if shutil.which("npm") else None

    phrases = query.data["accent_phrases"]
    morae = [mora["text"] for phrase in phrases for mora in phrase["moras"]]
    assert morae[:5] == ["マ", "ン", "ジ", "マ", "ル"]
    with wave.open(io.BytesIO(sound)) as file:
        assert file.getframerate() == 24_000
        assert 0.7 < file.getnframes() / 24_000 < 4.0
    assert b"Synthetic speech" in sound[:400]
    if seen is None:
        pytest.skip("the npm client needs npm, which is not installed")
    assert (seen["speaker"], seen["added"], seen["presets"]) == ("メイ", 7, ["fast"])
    assert seen["left"] == 0
    assert 0 < int(str(seen["fastBytes"])) < 0.8 * int(str(seen["bytes"]))
