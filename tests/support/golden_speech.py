"""The reference outputs of Style-Bert-VITS2; see tests/data/aivmx/README.md."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

from shared.speech.engines.style_bert_graphs import Vocabulary

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
