"""Writes the bundle of a character that was trained from recordings."""

import datetime as dt
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.characters import SCHEMA_VERSION
from speech.importing.consent import Consent
from speech.importing.terms import terms_of
from speech.importing.writing import put_bundle
from training.export import GRAPH, Melody
from training.network import OUTPUT_RATE
from training.recordings.graph_weights import with_decoder
from training.recordings.stages import Trained

TOOL = "Voice Avatar, trained from recordings"
_COLOUR = "#3d7f8c"
_LIMITS = {"min_seconds": 0.1, "max_seconds": 300.0}


@dataclass(frozen=True)
class Names:
    """The character's id, and its names as visitors see them."""

    character: str
    english: str
    japanese: str


def write_bundle(
    target: Path, names: Names, consent: Consent, trained: Trained, base: Path
) -> Path:
    """Write graph and manifest.

    Args:
        target: the bundle's folder.
        names: of the character.
        consent: of the voice's owner.
        trained: the decoder, and how high the owner speaks.
        base: the graph whose encoder and synthesis are used.

    Returns:
        The bundle's folder.

    Raises:
        VoiceFileError: the id is no id or taken, or the manifest would not be accepted.
    """
    graph = with_decoder(base, trained.network)
    return put_bundle(target, _manifest(names, consent, trained.melody, graph), {GRAPH: graph})


def _manifest(names: Names, consent: Consent, melody: Melody, graph: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(graph).hexdigest()
    origin = {
        "source": consent.source,
        "author": consent.author or consent.owner[:200],
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "tool": TOOL,
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "id": names.character,
        "name": {"ja": names.japanese, "en": names.english},
        "engine": "harmonic",
        "sample_rate": OUTPUT_RATE,
        "graphs": {"harmonic": {"file": GRAPH, "sha256": digest, "bytes": len(graph)}},
        "pitch": melody.as_manifest(),
        "limits": _LIMITS,
        **terms_of(consent),
        "preview": {"colour": _COLOUR, "portrait": None},
        "origin": origin,
    }
