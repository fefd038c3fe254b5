"""Every text of the collection ends in sound or in a clear error; see tests/data/text/README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopenjtalk
import pytest

from importing.aivmx.graphs import parse_aivmx
from speech.bundles.bundle import Graph
from speech.bundles.onnx_model import inspect_model
from speech.engines.interface.text_engine import SpeechOptions, TextError
from speech.engines.japanese.engine import HtsVoice, JapaneseEngine
from speech.engines.style_bert_vits2.engine import VoiceBundle, build_voice
from speech.networks.settings import SessionSettings
from speech.text.english import EnglishReader, read_words
from speech.text.reading import Reader
from tests.support.golden_speech import FOLDER, vocabulary

if TYPE_CHECKING:
    from speech.engines.interface.text_engine import TextEngine

COLLECTION = Path(__file__).parents[3] / "data" / "text" / "sentences.json"
ROWS: list[dict[str, Any]] = json.loads(COLLECTION.read_text("utf-8"))
KINDS = sorted({row["kind"] for row in ROWS})


@pytest.fixture(scope="module")
def engines() -> dict[str, TextEngine]:
    reader = Reader()
    voice = HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode()))
    imported = parse_aivmx((FOLDER / "tiny.aivmx").read_bytes())
    encoder = (FOLDER / "bert.onnx").read_bytes()
    bundle = VoiceBundle(
        imported.facts.voice,
        Graph("voice.onnx", imported.graph, inspect_model(imported.graph)),
        Graph("bert.onnx", encoder, inspect_model(encoder)),
        vocabulary(),
    )
    return {
        "japanese": JapaneseEngine(
            voice, reader, EnglishReader(reader, read_words()), sample_rate=24_000
        ),
        "style_bert_vits2": build_voice(bundle, reader, SessionSettings()),
    }


def answer(engine: TextEngine, text: str) -> str:
    """Say whether the first piece is heard, or what the error is; the rest is not waited for."""
    try:
        first = next(engine.speak(text, SpeechOptions()))
    except TextError as error:
        return error.code.value if error.message.endswith(".") else "no sentence"
    assert np.isfinite(first).all()
    assert np.abs(first).max() <= 1.0
    return "sound" if np.abs(first).max() > 0.05 else "silence"


def test_the_collection_has_three_hundred_texts() -> None:
    assert len({row["text"] for row in ROWS}) >= 300


@pytest.mark.parametrize("name", ["japanese", "style_bert_vits2"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_ends_in_sound_or_in_a_clear_error(
    kind: str, name: str, engines: dict[str, TextEngine]
) -> None:
    rows = [row for row in ROWS if row["kind"] == kind]

    answers = {
        row["text"][:40]: answer(engines[name], row["text"] * row.get("times", 1)) for row in rows
    }

    assert answers == {row["text"][:40]: row[name] for row in rows}
