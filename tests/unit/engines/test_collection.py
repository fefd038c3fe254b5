"""Every text of the collection ends in sound or in a clear error; see tests/data/text/README.md."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyopenjtalk
import pytest

from shared.speech.engines.japanese import HtsVoice, JapaneseEngine
from shared.speech.engines.style_bert_vits2 import build_from_graphs
from shared.speech.engines.text_interface import SpeechOptions, TextEngine, TextError
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.text.front_end import FrontEnd, Reader
from tests.support.golden_speech import style_bert_graphs

COLLECTION = Path(__file__).parents[2] / "data" / "text" / "sentences.json"
ROWS: list[dict[str, Any]] = json.loads(COLLECTION.read_text("utf-8"))
KINDS = sorted({row["kind"] for row in ROWS})


@pytest.fixture(scope="module")
def engines() -> dict[str, TextEngine]:
    voice = HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode()))
    return {
        "japanese": JapaneseEngine(voice, FrontEnd(), sample_rate=24_000),
        "style_bert_vits2": build_from_graphs(style_bert_graphs(), Reader(), SessionSettings()),
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
