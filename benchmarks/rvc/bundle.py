"""The bundle of an RVC voice of full size with random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from benchmarks.rvc import graphs
from shared.characters import MANIFEST
from speech.importing.bundles import entry, preview, write_files

CHARACTER: Final = "full-size"
_CHARACTERS: Final = Path(__file__).parents[2] / "characters"
_FALLBACK: Final = "mei"


def write_characters(folder: Path) -> None:
    """Write a folder of characters: this one, and the one that a cloud has in any case."""
    shutil.copytree(_CHARACTERS / _FALLBACK, folder / _FALLBACK)
    files = {"content": graphs.content_encoder(), "synthesizer": graphs.synthesizer(4)}
    # Any manifest will do: what an RVC voice needs otherwise is put into it.
    fields = json.loads((_CHARACTERS / _FALLBACK / MANIFEST).read_text("utf-8"))
    fields |= {
        "id": CHARACTER,
        "engine": "rvc",
        "sample_rate": graphs.SAMPLE_RATE,
        "pitch": None,
        "takes": "speech",
        "text": None,
        "settings": {},
        "preview": preview(None),
        "graphs": {role: entry(role, content) for role, content in files.items()},
    }
    write_files(folder / CHARACTER, fields, files)
