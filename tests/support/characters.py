"""Characters for tests."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from shared.characters import (
    CharacterManifest,
    CharacterName,
    GraphFile,
    Licence,
    Limits,
    Pitch,
    Preview,
)


def a_manifest(
    name: str = "mei", folder: Path = Path(), portrait: str | None = None
) -> CharacterManifest:
    return CharacterManifest(
        id=name,
        name=CharacterName(ja="メイ", en=name.title()),
        engine="harmonic",
        sample_rate=24_000,
        graphs=MappingProxyType({"network": GraphFile("network.onnx", "00" * 32, 1)}),
        pitch=Pitch("auto", 220.0, 0.2, 100.0, 500.0),
        limits=Limits(1.0, 10.0),
        credit="Voice: somebody",
        licence=Licence("CC BY 4.0", "CC-BY-4.0", "https://licence.example/"),
        terms_url="https://terms.example/",
        consent="Somebody agreed.",
        contact="mailto:somebody@voice.example",
        preview=Preview("#aabbcc", portrait),
        settings=MappingProxyType({}),
        folder=folder,
    )
