"""An RVC voice of one's own, from its files to a converted recording, command by command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np

from tests.integration.served import run
from tests.unit.speech.importing.encoders import encoder

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


def importing(*arguments: object) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command: Sequence[str] = (sys.executable, "-m", "speech.importing", *map(str, arguments))
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_the_demo_answers_in_a_voice_that_was_imported_with_two_commands(tmp_path: Path) -> None:
    characters = tmp_path / "characters"
    shutil.copytree(ROOT / "characters" / "mei", characters / "mei")
    (tmp_path / "encoder.onnx").write_bytes(encoder())
    (tmp_path / "consent.toml").write_text(CONSENT)
    output = tmp_path / "demo.wav"

    importing("encoder", tmp_path / "encoder.onnx", "--into", characters)
    files = (VOICES / "v2-f0-40k.pth", VOICES / "v2.index")
    consent = ("--consent", tmp_path / "consent.toml")
    importing("import", *files, "--as", "ada", *consent, "--into", characters)
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
