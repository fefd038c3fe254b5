"""An AIVMX voice of one's own, from its file to speech, command by command."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import av
import numpy as np

from shared.speech.graphs.portraits import picture_in
from tests.integration.served import run
from tests.integration.test_imported_voice import ROOT, import_as_printed
from tests.support.golden_speech import FOLDER, vocabulary_file

if TYPE_CHECKING:
    from pathlib import Path


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
