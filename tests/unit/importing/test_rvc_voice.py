"""Imported voices in the engine: what the original tools say, and a recording from end to end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tests.unit.bundles.test_consent import ANSWERS
from tests.unit.engines import rvc_golden
from tests.unit.importing.encoders import encoder
from tools.bundles.sample import Sample
from tools.bundles.trial import TrialReport, speech_like
from tools.importing.importer import Trials, import_command

if TYPE_CHECKING:
    from pathlib import Path


def no_answer(question: str) -> str:
    raise AssertionError(question)


def unmeasured(folder: Path, threads: int) -> TrialReport:
    return TrialReport(folder.name, f"{threads}", 1.0, 1.0, 1.0, 1.0)


UNTRIED = Trials(unmeasured, lambda folder, *_: Sample(folder / "a.wav", folder / "a.png"))


def test_an_imported_character_converts_a_recording(tmp_path: Path) -> None:
    characters = tmp_path / "characters"
    (tmp_path / "contentvec.onnx").write_bytes(encoder((256, 768)))
    (tmp_path / "consent.json").write_text(json.dumps(ANSWERS), "utf-8")
    into = ("--into", str(characters))
    files = (str(rvc_golden.DATA / "v2-f0-40k.pth"), str(rvc_golden.DATA / "v2.index"))
    consent = ("--consent", str(tmp_path / "consent.json"))
    assert (
        import_command(["encoder", str(tmp_path / "contentvec.onnx"), *into], no_answer, UNTRIED)
        == 0
    )
    named = ("--as", "ada", *consent, *into)
    assert import_command(["import", *files, *named], no_answer, UNTRIED) == 0

    character = load_character(characters / "ada", ENGINES)
    engine = build_engine(character, SessionSettings())
    recording = speech_like(1.5, 48_000)
    converted = engine.convert(recording, 48_000, ConversionOptions(seed=3))

    assert engine.sample_rate == 40_000
    assert len(converted) == 60_000
    assert np.sqrt(np.mean(converted**2)) > 1e-3
    again = engine.convert(recording, 48_000, ConversionOptions(seed=3))
    assert np.array_equal(converted, again)
