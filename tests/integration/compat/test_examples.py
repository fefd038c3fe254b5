"""The examples of docs/compatible-apis.md do what they say; only the ports are others."""

from __future__ import annotations

import wave
from textwrap import indent
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.speech.results.audio_files import write_wav
from tests.integration.compat.conftest import ROOT
from tests.support.examples import python_examples, run

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 60
PAGE = (ROOT / "docs" / "compatible-apis.md").read_text()
EXAMPLES: dict[str, str] = {}
for part in PAGE.split("\n## ")[1:]:
    for code in python_examples(part)[:1]:
        EXAMPLES[part.splitlines()[0]] = code


def run_awaiting(example: str, folder: Path) -> str:
    """Run an example, which may await at its top; what it prints."""
    program = (
        f"import asyncio\n\nasync def main():\n{indent(example, '    ')}\n\nasyncio.run(main())\n"
    )
    return run(program, folder, SECONDS)


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_of_the_page_runs(
    title: str, address: str, wyoming_port: int, tmp_path: Path
) -> None:
    tone = (0.3 * np.sin(np.arange(48_000) / 30)).astype(np.float32)
    (tmp_path / "hello.wav").write_bytes(write_wav(tone, 24_000))
    example = EXAMPLES[title].replace("127.0.0.1:50021", address.removeprefix("http://"))

    printed = run_awaiting(example.replace("10200", str(wyoming_port)), tmp_path)

    made = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    match title:
        case "OpenAI":
            assert made["hello.mp3"] > 10_000
        case "ElevenLabs":
            assert made["converted.mp3"] > 10_000
        case "VOICEVOX":
            with wave.open(str(tmp_path / "hello.wav")) as file:
                assert file.getnframes() != len(tone)
        case "Wyoming":
            assert "audio-chunk" in printed
        case _:
            assert '"sentence"' in printed


def test_every_api_of_the_page_has_an_example_of_a_few_lines() -> None:
    assert set(EXAMPLES) == {"OpenAI", "ElevenLabs", "Wyoming", "Text in pieces", "VOICEVOX"}
    assert all(len(each.strip().splitlines()) <= 12 for each in EXAMPLES.values())
