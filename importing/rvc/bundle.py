"""Writes the bundle of an imported RVC voice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from importing.bundles.bundles import (
    LIMITS,
    entry,
    owner_fields,
    preview,
    shared_entry,
    write_files,
)
from shared.characters.manifest import SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from importing.bundles.consent import Consent
    from importing.encoders.encoder_store import StoredEncoder
    from importing.rvc.voices import ImportedVoice

ENGINE = "rvc"

_USUAL_LOG_STD = 0.2

_OCTAVE = 2.0


@dataclass(frozen=True)
class Wishes:
    """What whoever imports a voice may choose.

    Attributes:
        character: the id.
        name: shown to visitors, in English.
        name_ja: shown to visitors, in Japanese.
        median_hz: of the character's speech, to which visitors are moved; None moves nobody.
        settings: of the engine.
        portrait: an SVG, or None.
    """

    character: str
    name: str
    name_ja: str
    median_hz: float | None
    settings: dict[str, Any]
    portrait: bytes | None = None


@dataclass(frozen=True)
class Parts:
    """What a bundle is made of.

    Attributes:
        voice: with the synthesizer.
        encoder: of the features that the voice takes.
        retrieval: the graph with the vectors of the voice's recordings, or None.
        pitch_model: that follows the visitor's pitch, or None for the engine's own tracker.
    """

    voice: ImportedVoice
    encoder: StoredEncoder
    retrieval: bytes | None
    pitch_model: StoredEncoder | None = None

    @property
    def shared(self) -> dict[str, StoredEncoder]:
        """The graphs that characters share, by role."""
        optional = {} if self.pitch_model is None else {"pitch": self.pitch_model}
        return {"content": self.encoder} | optional

    @property
    def graphs(self) -> dict[str, bytes]:
        """The graphs that lie in the bundle's own folder, by role."""
        optional = {} if self.retrieval is None else {"retrieval": self.retrieval}
        return {"synthesizer": self.voice.synthesizer} | optional


def write_bundle(characters: Path, wishes: Wishes, parts: Parts, consent: Consent) -> Path:
    """Write a bundle into the folder of characters.

    Returns:
        The bundle's folder.

    Raises:
        VoiceFileError: the id is no id or taken, or the manifest would not be accepted.
    """
    target = characters / wishes.character
    write_files(target, _manifest(wishes, parts, consent), parts.graphs, wishes.portrait)
    return target


def _manifest(wishes: Wishes, parts: Parts, consent: Consent) -> dict[str, Any]:
    voice, encoder = parts.voice, parts.encoder
    output = encoder.output_for(voice.features)
    settings = {"content_output": output.name} if output is not None else {}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": wishes.character,
        "name": {"ja": wishes.name_ja, "en": wishes.name},
        "engine": ENGINE,
        "sample_rate": voice.sample_rate,
        "graphs": {
            **{role: shared_entry(role, stored) for role, stored in parts.shared.items()},
            **{role: entry(role, content) for role, content in parts.graphs.items()},
        },
        "pitch": _pitch(wishes.median_hz),
        "limits": LIMITS,
        **owner_fields(consent),
        "preview": preview(wishes.portrait),
        "origin": _origin(voice, consent),
        "settings": settings | wishes.settings,
    }


def _pitch(median_hz: float | None) -> dict[str, Any] | None:
    if median_hz is None:
        return None
    return {
        "policy": "auto",
        "low_hz": max(20.0, median_hz / _OCTAVE),
        "high_hz": min(2_000.0, median_hz * _OCTAVE),
        "median_hz": median_hz,
        "log_std": _USUAL_LOG_STD,
    }


def _origin(voice: ImportedVoice, consent: Consent) -> dict[str, Any]:
    origin: dict[str, Any] = {
        "source": consent.source,
        "author": consent.author or voice.facts.get("author") or None,
        "sha256": voice.sha256,
        "tool": voice.facts.get("tool") or None,
    }
    digits = re.match(r"[0-9]{1,9}", voice.facts.get("epoch", ""))
    origin["epoch"] = int(digits.group()) if digits else None
    return {name: value for name, value in origin.items() if value is not None}
