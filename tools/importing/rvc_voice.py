"""A voice as a bundle needs it, whatever kind of file it came in."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.characters.manifest import SCHEMA_VERSION
from shared.runtime.quoting import printable
from tools.bundles.encoder_store import FEATURE_SIZES
from tools.bundles.files import VoiceFileError, require_file, run_apart
from tools.bundles.writer import LIMITS, entry, owner_fields, preview, shared_entry, write_files
from tools.importing.exports import MAX_EXPORT_BYTES, read_export
from tools.importing.synthesizer import build_synthesizer
from tools.importing.voice_file import read_voice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.bundles.consent import Consent
    from tools.bundles.encoder_store import StoredEncoder


_SUFFIXES = (".pth", ".pt", ".onnx")


@dataclass(frozen=True)
class ImportedVoice:
    """A synthesizer and what is known of it.

    Attributes:
        version: "v1" or "v2".
        sample_rate: in Hz.
    """

    synthesizer: bytes = field(repr=False)
    sha256: str
    kind: str
    version: str
    has_pitch: bool
    sample_rate: int
    speakers: int
    facts: Mapping[str, str]
    repairs: Sequence[str]

    @property
    def features(self) -> int:
        return FEATURE_SIZES[self.version]


def import_voice(path: Path) -> ImportedVoice:
    if path.suffix.lower() not in _SUFFIXES:
        raise VoiceFileError(
            f"{printable(path.name)}: expected a .pth or an .onnx, found another kind."
        )
    try:
        require_file(path)
        return from_export(path) if path.suffix.lower() == ".onnx" else from_checkpoint(path)
    except VoiceFileError as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error
    except OSError as error:
        raise VoiceFileError(
            f"{printable(path.name)}: expected a readable file, found none ({error.strerror})."
        ) from error


def from_checkpoint(path: Path) -> ImportedVoice:
    with path.open("rb") as file:
        voice = read_voice(file)
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return ImportedVoice(
        synthesizer=build_synthesizer(voice),
        sha256=sha256,
        kind=f"{voice.facts['tool']} voice, {voice.vocoder}",
        version=voice.version,
        has_pitch=voice.has_pitch,
        sample_rate=voice.sizes.sample_rate,
        speakers=voice.speakers,
        facts=voice.facts,
        repairs=voice.repairs,
    )


def from_export(path: Path) -> ImportedVoice:
    if path.stat().st_size > MAX_EXPORT_BYTES:
        raise VoiceFileError(f"expected at most {MAX_EXPORT_BYTES} bytes, found more.")
    content = path.read_bytes()
    voice = run_apart(read_export, content)
    return ImportedVoice(
        synthesizer=voice.graph,
        sha256=hashlib.sha256(content).hexdigest(),
        kind=f"ONNX export, {voice.family}",
        version=voice.version,
        has_pitch=voice.has_pitch,
        sample_rate=voice.sample_rate,
        speakers=voice.speakers,
        facts={"tool": voice.family, **voice.facts},
        repairs=voice.repairs,
    )


ENGINE = "rvc"

_USUAL_LOG_STD = 0.2

_OCTAVE = 2.0


def write_bundle(
    characters: Path,
    character: str,
    names: tuple[str, str],
    voice: ImportedVoice,
    consent: Consent,
    *,
    shared: Mapping[str, StoredEncoder],
    retrieval: bytes | None = None,
    median_hz: float | None = None,
    settings: Mapping[str, Any],
    portrait: bytes | None = None,
) -> None:
    """Write a bundle into the folder of characters.

    Args:
        names: in Japanese and in English.
        shared: the content encoder, and perhaps a pitch model, by role.
        retrieval: the graph with the vectors of the voice's recordings.
        median_hz: of the character's speech, to which visitors are moved; None moves nobody.
        portrait: an SVG.
    """
    graphs = {"synthesizer": voice.synthesizer}
    if retrieval is not None:
        graphs["retrieval"] = retrieval
    output = shared["content"].output_for(voice.features)
    chosen = {"content_output": output.name} if output is not None else {}
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "id": character,
        "name": {"ja": names[0], "en": names[1]},
        "engine": ENGINE,
        "sample_rate": voice.sample_rate,
        "graphs": {
            **{role: shared_entry(role, stored) for role, stored in shared.items()},
            **{role: entry(role, content) for role, content in graphs.items()},
        },
        "pitch": pitch(median_hz),
        "limits": LIMITS,
        **owner_fields(consent),
        "preview": preview(portrait),
        "origin": _origin(voice, consent),
        "settings": {**chosen, **settings},
    }
    write_files(characters / character, manifest, graphs, portrait)


def pitch(median_hz: float | None) -> dict[str, Any] | None:
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
