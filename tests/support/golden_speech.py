"""The reference outputs of Style-Bert-VITS2; see tests/data/aivmx/README.md."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from shared.speech.engines.style_bert_graphs import Vocabulary
from shared.speech.engines.style_bert_vits2 import StyleBertGraphs
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import inspect_model
from tools.importing.aivmx_files import parse_aivmx

FOLDER = Path(__file__).parents[1] / "data" / "aivmx"
REFERENCE: dict[str, Any] = json.loads((FOLDER / "text.json").read_text("utf-8"))
SENTENCES: list[dict[str, Any]] = REFERENCE["sentences"]


def vocabulary_file() -> str:
    """Return the vocabulary as a `vocab.txt`; tokens that no sentence has are made up."""
    tokens = {number: token for token, number in vocabulary().ids.items()}
    lines = (tokens.get(number, f"[unused{number}]") for number in range(max(tokens) + 1))
    return "\n".join(lines) + "\n"


def vocabulary() -> Vocabulary:
    """Make a vocabulary of the sentences' characters alone."""
    ids = {"[CLS]": 1, "[SEP]": 2, "[UNK]": 3}
    for sentence in SENTENCES:
        characters = unicodedata.normalize("NFKC", sentence["bert_text"])
        ids |= dict(zip(characters, sentence["bert_input_ids"][1:-1], strict=True))
    return Vocabulary(ids)


def graph(file: str, content: bytes) -> Graph:
    return Graph(file, content, inspect_model(content))


@cache
def style_bert_graphs() -> StyleBertGraphs:
    """Read the small model that the reference was made with."""
    imported = parse_aivmx((FOLDER / "tiny.aivmx").read_bytes())
    return StyleBertGraphs(
        imported.facts.voice,
        graph("voice.onnx", imported.graph),
        graph("bert.onnx", (FOLDER / "bert.onnx").read_bytes()),
        vocabulary(),
    )
