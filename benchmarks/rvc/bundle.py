"""The bundle of an RVC voice of full size with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.measuring.characters import write_beside_mei
from benchmarks.rvc import graphs
from importing.bundles.bundles import entry

if TYPE_CHECKING:
    from pathlib import Path

CHARACTER: Final = "full-size"


def write_characters(folder: Path) -> None:
    """Write a folder of characters: this one, and the one that a cloud has in any case."""
    files = {"content": graphs.content_encoder(), "synthesizer": graphs.synthesizer()}
    fields = {
        "engine": "rvc",
        "sample_rate": graphs.SAMPLE_RATE,
        "takes": "speech",
        "settings": {},
        "graphs": {role: entry(role, content) for role, content in files.items()},
    }
    write_beside_mei(folder, CHARACTER, fields, files)
