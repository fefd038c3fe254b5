"""Makes a character of an AIVMX voice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from importing.aivmx.graphs import AivmxVoice, read_aivmx
from importing.bundles.bundles import (
    COLOUR,
    LIMITS,
    entry,
    owner_fields,
    preview,
    shared_entry,
    write_files,
)
from importing.bundles.portraits import draw_portrait
from importing.files.apart import run_apart
from importing.files.errors import VoiceFileError
from importing.files.reading import require_file
from shared.characters.manifest import SCHEMA_VERSION
from shared.process.quoting import printable
from speech.engines.style_bert_vits2.aivm_media import AivmxError
from speech.engines.style_bert_vits2.encoder import FEATURES

if TYPE_CHECKING:
    from pathlib import Path

    from importing.bundles.consent import Consent
    from importing.encoders.encoder_store import StoredEncoder
    from speech.engines.style_bert_vits2.aivm import AivmxFacts

SUFFIX = ".aivmx"
ENGINE = "style_bert_vits2"
ENCODER_WIDTH = FEATURES
_LONGEST_LICENCE = 30_000


@dataclass(frozen=True, eq=False)
class TextVoice:
    """A voice that was read from an AIVMX file.

    Attributes:
        read: the voice.
        portrait: its first speaker's icon as an SVG; None if nothing can show that icon.
        sha256: of the file.
    """

    read: AivmxVoice
    portrait: bytes | None
    sha256: str


def read_text_voice(path: Path) -> TextVoice:
    """Read an AIVMX file in a process of its own.

    Raises:
        VoiceFileError: it cannot be read, or is no usable voice; the message begins with its name.
    """
    try:
        require_file(path)
        voice, portrait = run_apart(_read_with_portrait, path)
        # Afterwards: a file that is too large was refused.
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return TextVoice(voice, portrait, sha256)
    except OSError as error:
        raise VoiceFileError(
            f"{printable(path.name)}: expected a readable file, found none ({error.strerror})."
        ) from error
    except (AivmxError, VoiceFileError) as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error


def _read_with_portrait(path: Path) -> tuple[AivmxVoice, bytes | None]:
    voice = read_aivmx(path)
    icon = voice.facts.icons[voice.facts.voice.speakers[0].uuid]
    try:
        return voice, draw_portrait(icon.content, COLOUR)
    except VoiceFileError:
        # The voice speaks without it all the same; the import's table says so.
        return voice, None


def write_text_bundle(
    target: Path,
    names: tuple[str, str],
    voice: TextVoice,
    encoder: StoredEncoder,
    consent: Consent,
) -> None:
    """Write the bundle of an AIVMX voice.

    Args:
        target: the bundle's folder, named by the character's id.
        names: shown to visitors, in Japanese and in English.
        voice: the voice.
        encoder: its BERT.
        consent: what the voice's owner says.

    Raises:
        VoiceFileError: the id is no id or taken, or the manifest would not be accepted.
    """
    read, (ja, en) = voice.read, names
    graphs = {"synthesis": read.graph}
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "id": target.name,
        "name": {"ja": ja, "en": en},
        "engine": ENGINE,
        "sample_rate": read.facts.voice.sample_rate,
        "takes": "text",
        "text": {"styles": list(_styles(read.facts))},
        "graphs": {
            "synthesis": entry("synthesis", read.graph),
            "bert": shared_entry("bert", encoder),
        },
        "pitch": None,
        "limits": LIMITS,
        **owner_fields(consent),
        "preview": preview(voice.portrait),
        "origin": _origin(read.facts, voice.sha256, consent),
    }
    licence = read.facts.licence
    if licence and not consent.licence_text:
        manifest["licence"] = {**manifest["licence"], "text": licence[:_LONGEST_LICENCE]}
    write_files(target, manifest, graphs, voice.portrait)


def _styles(facts: AivmxFacts) -> list[dict[str, Any]]:
    return [
        {"id": style.id, "name": style.name, "speaker": speaker.name}
        for speaker in facts.voice.speakers
        for style in speaker.styles
    ]


def _origin(facts: AivmxFacts, sha256: str, consent: Consent) -> dict[str, Any]:
    author = consent.author or ", ".join(facts.creators)[:200] or None
    origin = {
        "source": consent.source,
        "author": author,
        "sha256": sha256,
        "tool": f"AIVMX: {facts.name} {facts.version}",
    }
    return {name: value for name, value in origin.items() if value is not None}
