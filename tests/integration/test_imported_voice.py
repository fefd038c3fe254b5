"""Voices of one's own, from their files to a recording or a text, command by command."""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import av
import httpx
import numpy as np
import pytest

from infra.local.commands.live import LiveVisitor
from infra.local.configuration.keys import WATERMARK_KEY
from shared.conversion.characters import build_character
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits, Recording
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.portraits import picture_in
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.audio_files import encode_result
from shared.speech.results.watermark import WatermarkKey
from shared.speech.results.watermark_engines import Marker
from shared.voices.voice import OutputFormat
from tests.integration.served import run, served_cloud
from tests.support.examples import commands
from tests.support.golden_speech import FOLDER, vocabulary_file
from tests.support.sound_files import frames_of
from tests.unit.importing.encoders import encoder
from tools.benchmarks.recordings import CONTENT_TYPE, SAMPLE_RATE, encoded, speech

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
VOICES = ROOT / "tests/data/rvc"
CONSENT = """
owner = "Nobody"
consent = "The voice has random weights, so nobody had to agree."
licence = "MIT"
terms_url = "https://example.org/terms"
credit = "Voice: random weights"
source = "the project's tests"
contact = "mailto:somebody@example.org"
commercial = true
redistribution = true
adult = false
politics = false
no_public_figure_no_minor = true
"""


def importing(folder: Path, *arguments: str) -> None:
    """Run a command of `nox -s character` in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command: Sequence[str] = (sys.executable, "-m", "tools.importing", *arguments)
    finished = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of characters with a voice that was imported with README's two commands."""
    folder = tmp_path_factory.mktemp("imported")
    characters = folder / "characters"
    shutil.copytree(ROOT / "tests" / "data" / "bundles" / "mei", characters / "mei")
    # An ONNX under this name: the command looks at the content. `test_hubert.py` reads .pt files.
    (folder / "hubert_base.pt").write_bytes(encoder())
    shutil.copy(VOICES / "v2-f0-40k.pth", folder / "voice.pth")
    shutil.copy(VOICES / "v2.index", folder / "added.index")
    import_as_printed(folder, ".pt", ".pth")
    return characters


def import_as_printed(folder: Path, *kinds: str, page: str = "README.md") -> None:
    """Run a page's commands for files of some kinds; the consent is in a file instead of asked."""
    (folder / "consent.toml").write_text(CONSENT)
    printed = commands((ROOT / page).read_text("utf-8"), "nox -s character -- ")
    wanted = [line for line in printed if line[1].endswith(kinds)]
    assert [line[0] for line in wanted] == ["encoder", "import"]
    for line in wanted:
        consent = ("--consent", "consent.toml") if line[0] == "import" else ()
        importing(folder, *line, *consent, "--into", "characters")


def test_the_demo_answers_in_a_voice_that_was_imported(characters: Path, tmp_path: Path) -> None:
    output = tmp_path / "demo.wav"
    variables = {"CHARACTERS_DIR": str(characters)}
    arguments = ("--embedded", "--character", "ada", "--output", output)
    finished = run("demo", *arguments, variables=variables)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "of ada" in finished.stdout
    with av.open(str(output)) as container:
        (stream,) = container.streams.audio
        assert stream.rate == 40_000
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    assert np.abs(np.concatenate(frames, axis=1)).max() > 1000


@pytest.mark.emulators
async def test_a_phrase_that_is_converted_while_the_visitor_speaks_changes_no_byte(
    characters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARACTERS_DIR", str(characters))

    def is_converted_ahead() -> bool:
        return '"converted_ahead"' in (tmp_path / "logs" / "live.log").read_text("utf-8")

    phrase, pause = speech(1.2), np.zeros(round(1.2 * SAMPLE_RATE), np.float32)
    recording = encoded(np.concatenate([phrase, pause, phrase]))
    with served_cloud(tmp_path, "--emulators") as here:
        async with httpx.AsyncClient(base_url=here["api"]) as client:
            wish = {"content_type": CONTENT_TYPE, "character": "ada"}
            created = (await client.post("/api/v1/voices", json=wish)).raise_for_status().json()
        async with LiveVisitor(created["live"]["url"], created["live"]["ticket"]) as visitor:
            await visitor.start(CONTENT_TYPE)
            half = 2 * len(recording) // 3
            await visitor.send(recording[:half])
            for at in range(half, len(recording), 50):
                if not is_converted_ahead():
                    await asyncio.sleep(0.1)
                await visitor.send(recording[at : at + 50])
            assert is_converted_ahead()
            await visitor.finish()
            assert (await visitor.end() or {})["type"] == "done"

    key = (tmp_path / "origin" / WATERMARK_KEY).read_text().strip()
    # As the services: the sums of a matrix product depend on how many threads share it.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    seed = zlib.crc32(created["voice_id"].encode())
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        whole = apart.submit(
            _converted_as_a_whole, characters / "ada", recording, seed, key
        ).result()
    # The file itself also holds a signed statement, which says when it was made.
    assert hashlib.sha256(frames_of(visitor.sound)).digest() == hashlib.sha256(whole).digest()


async def _decoded(recording: bytes) -> Recording:
    async with Decoder() as decoder:
        return await decoder.decode(recording, limits=DecodeLimits())


def _converted_as_a_whole(bundle: Path, recording: bytes, seed: int, key: str) -> bytes:
    """Convert a recording as convert does, and return the samples of the file."""
    marker = Marker(WatermarkKey(key.encode()), 1)
    character = build_character(load_character(bundle, ENGINES), SessionSettings(), marker=marker)
    engine = character.engine
    decoded = asyncio.run(_decoded(recording))
    options = ConversionOptions(seed=seed)
    samples = engine.convert(decoded.samples, decoded.sample_rate, options)
    marking = character.marking
    return frames_of(encode_result(samples, engine.sample_rate, OutputFormat.WAV, marking).data)


def test_a_text_is_spoken_by_an_aivmx_voice_that_was_imported_with_the_two_printed_commands(
    tmp_path: Path,
) -> None:
    characters = tmp_path / "characters"
    shutil.copytree(ROOT / "tests" / "data" / "bundles" / "mei", characters / "mei")
    (tmp_path / "vocab.txt").write_text(vocabulary_file(), "utf-8")
    shutil.copy(FOLDER / "bert.onnx", tmp_path)
    shutil.copy(FOLDER / "tiny.aivmx", tmp_path / "voice.aivmx")
    output = tmp_path / "speech.wav"

    import_as_printed(tmp_path, ".onnx", ".aivmx", page="characters/README.md")
    manifest = json.loads((characters / "kana" / "character.json").read_text("utf-8"))
    style = manifest["text"]["styles"][1]["id"]
    variables = {"CHARACTERS_DIR": str(characters)}
    wish = ("--text", "こんにちは、世界。", "--character", "kana", "--style", str(style))
    finished = run("convert", "--embedded", *wish, output, variables=variables)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert (manifest["takes"], manifest["sample_rate"]) == ("text", 44_100)
    assert manifest["licence"]["text"] == "CC0-1.0 (random weights, no voice)"
    portrait = (characters / "kana" / manifest["preview"]["portrait"]).read_bytes()
    assert picture_in(portrait) is not None
    with av.open(str(output)) as container:
        (stream,) = container.streams.audio
        assert stream.rate == 44_100
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    assert np.abs(np.concatenate(frames, axis=1)).max() > 1000
