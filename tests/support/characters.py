"""Characters for tests."""

from __future__ import annotations

from pathlib import Path

from shared.characters.manifest import (
    CharacterLicence,
    CharacterManifest,
    CharacterName,
    GraphFile,
    Limits,
    Pitch,
    Preview,
)


def a_manifest(
    name: str = "mei", folder: Path = Path(), portrait: str | None = None
) -> CharacterManifest:
    return CharacterManifest(
        schema_version=1,
        id=name,
        name=CharacterName(ja="メイ", en=name.title()),
        description=CharacterName(ja="明るい声", en="A bright voice"),
        engine="harmonic",
        sample_rate=24_000,
        graphs={"network": GraphFile(file="network.onnx", sha256="00" * 32, bytes=1)},
        pitch=Pitch(policy="auto", median_hz=220.0, log_std=0.2, low_hz=100.0, high_hz=500.0),
        limits=Limits(min_seconds=1.0, max_seconds=10.0),
        credit="Voice: somebody",
        licence=CharacterLicence(
            name="CC BY 4.0", spdx="CC-BY-4.0", url="https://licence.example/"
        ),
        terms_url="https://terms.example/",
        consent="Somebody agreed.",
        contact="mailto:somebody@voice.example",
        preview=Preview(colour="#aabbcc", portrait=portrait),
        takes="speech",
        folder=folder,
    )
