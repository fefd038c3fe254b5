"""Character bundles written to a folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

from onnx import GraphProto

from shared.speech.engines.interface import Engine
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tests.unit.graphs import small_graphs


def manifest(**changes: Any) -> dict[str, Any]:
    """Make a manifest that is right but for the changes; `...` removes a field."""
    right: dict[str, Any] = {
        "schema_version": 1,
        "id": "tester",
        "name": {"ja": "テスター", "en": "Tester"},
        "engine": "harmonic",
        "sample_rate": 24_000,
        "graphs": {"harmonic": {"file": "harmonic.onnx", "sha256": "0" * 64, "bytes": 1}},
        "pitch": {
            "policy": "auto",
            "median_hz": 330.0,
            "log_std": 0.2,
            "low_hz": 150.0,
            "high_hz": 700.0,
        },
        "limits": {"min_seconds": 0, "max_seconds": 600},
        "credit": "Nobody's voice",
        "licence": {
            "name": "MIT License",
            "spdx": "MIT",
            "url": "https://opensource.org/license/mit",
        },
        "terms_url": "https://example.org/terms",
        "consent": "There is nobody who could object.",
        "contact": "mailto:nobody@example.org",
        "preview": {"colour": "#336699", "portrait": None},
    }
    right.update(changes)
    return {name: value for name, value in right.items() if value is not ...}


def build(folder: Path) -> Engine:
    return build_engine(load_character(folder, ENGINES), SessionSettings())


def write_bundle(folder: Path, content: bytes | None = None, **changes: Any) -> Path:
    """Write a harmonic bundle with the graph of that content, as the manifest promises it."""
    content = small_graphs.content(small_graphs.harmonic_graph()) if content is None else content
    return _write(folder, "harmonic", content, changes)


def write_waveform_bundle(folder: Path, graph: GraphProto, **changes: Any) -> Path:
    """Write a waveform bundle from 16 kHz to 24 kHz, or as the changes say."""
    settings = {"input": "audio", "output": "converted", "input_sample_rate": 24_000}
    said = {"engine": "waveform", "pitch": None, "settings": settings}
    return _write(folder, "waveform", small_graphs.content(graph), {**said, **changes})


def _write(folder: Path, role: str, content: bytes, changes: dict[str, Any]) -> Path:
    file, sha256 = f"{role}.onnx", hashlib.sha256(content).hexdigest()
    entry = {"file": file, "sha256": sha256, "bytes": len(content)}
    bundle = folder / "tester"
    bundle.mkdir()
    (bundle / file).write_bytes(content)
    said = manifest(**{"graphs": {role: entry}, **changes})
    (bundle / "character.json").write_text(json.dumps(said, ensure_ascii=False), "utf-8")
    return bundle
