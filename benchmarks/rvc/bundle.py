"""The bundle of an RVC voice of full size with random weights."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Final

from benchmarks.rvc import graphs
from shared.characters import MANIFEST

CHARACTER: Final = "full-size"
_CHARACTERS: Final = Path(__file__).parents[2] / "characters"
_FALLBACK: Final = "mei"


def write_characters(folder: Path) -> None:
    """Write a folder of characters: this one, and the one that a cloud has in any case."""
    shutil.copytree(_CHARACTERS / _FALLBACK, folder / _FALLBACK)
    target = folder / CHARACTER
    target.mkdir()
    files = {"content": graphs.content_encoder(), "synthesizer": graphs.synthesizer(4)}
    for role, content in files.items():
        (target / f"{role}.onnx").write_bytes(content)
    fields = json.loads((_CHARACTERS / _FALLBACK / MANIFEST).read_text("utf-8"))
    # Any manifest will do: what an RVC voice needs otherwise is put into it.
    fields |= {
        "id": CHARACTER,
        "engine": "rvc",
        "sample_rate": graphs.SAMPLE_RATE,
        "pitch": None,
        "takes": "speech",
        "settings": {},
        "preview": fields["preview"] | {"portrait": None},
        "graphs": {
            role: {
                "file": f"{role}.onnx",
                "sha256": hashlib.sha256(content).hexdigest(),
                "bytes": len(content),
            }
            for role, content in files.items()
        },
    }
    del fields["text"]
    (target / MANIFEST).write_text(json.dumps(fields, ensure_ascii=False), "utf-8")
