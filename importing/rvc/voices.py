"""A voice as a bundle needs it, whatever kind of file it came in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from importing.encoders.encoder_store import FEATURE_SIZES
from importing.files.apart import run_apart
from importing.files.errors import VoiceFileError
from importing.files.reading import require_file
from importing.rvc.checkpoint.voice_file import read_voice
from importing.rvc.exports.reading import MAX_EXPORT_BYTES, read_export
from importing.rvc.synthesizer.build import build_synthesizer
from shared.process.quoting import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SUFFIXES = (".pth", ".pt", ".onnx")


@dataclass(frozen=True)
class ImportedVoice:
    """A synthesizer and what is known of it.

    Attributes:
        synthesizer: the ONNX file.
        sha256: of the file that it was made of.
        kind: of the file, in a few words.
        version: "v1" or "v2".
        has_pitch: whether it takes a pitch.
        sample_rate: in Hz.
        speakers: how many it has.
        facts: what else the file says, as text.
        repairs: a sentence for everything that was put right.
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
        """How many numbers of every frame it takes."""
        return FEATURE_SIZES[self.version]


def import_voice(path: Path) -> ImportedVoice:
    """Read a voice.

    Args:
        path: a `.pth` or an `.onnx`.

    Raises:
        VoiceFileError: it cannot be read, or is no voice; the message begins with its name.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise VoiceFileError(
            f"{printable(path.name)}: expected a .pth or an .onnx, found another kind."
        )
    try:
        require_file(path)
        return _from_export(path) if path.suffix.lower() == ".onnx" else _from_checkpoint(path)
    except VoiceFileError as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error
    except OSError as error:
        raise VoiceFileError(
            f"{printable(path.name)}: expected a readable file, found none ({error.strerror})."
        ) from error


def _from_checkpoint(path: Path) -> ImportedVoice:
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


def _from_export(path: Path) -> ImportedVoice:
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
