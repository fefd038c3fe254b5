"""Writes the bundle of a character that was trained from recordings."""

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.characters.manifest import ENCODERS, MAX_BUNDLE_BYTES, SCHEMA_VERSION, read_manifest
from shared.runtime.process import write_whole
from shared.speech.engines import content_encoder
from shared.speech.graphs.bundle_folders import seal_manifest
from shared.speech.signal.samples import resample
from tools.bundles.consent import Consent
from tools.bundles.writer import LIMITS, entry, owner_fields, preview, write_files
from tools.training.content.graphs import CONTENT_STREAM, HARMONIC, STREAM
from tools.training.decoder.export import with_weights
from tools.training.decoder.network import OUTPUT_RATE, Network
from tools.training.decoder.spectrum import give_back, lacking
from tools.training.decoder.stream import leave_out_weights, take_in_weights
from tools.training.judges.converter import BundleConverter
from tools.training.recordings.learner import TrainedDecoder
from tools.training.recordings.usable_speech import Utterance

SHARED = (content_encoder.ROLE, content_encoder.STREAM_ROLE)
"""The roles of graphs that are kept once for all characters."""
TOOL = "Voice Avatar, trained from recordings"
_COLOURS = (
    "#5b6abf", "#2f6f9f", "#1f7a78", "#5d8534", "#8a6d1f", "#b5651d", "#a8434f", "#a3487f",
    "#7a5cb8",
)  # fmt: skip


def colour_of(character: str) -> str:
    """Choose a character's colour by its id, to tell apart those without a portrait: #rrggbb."""
    return _COLOURS[hashlib.sha256(character.encode()).digest()[0] % len(_COLOURS)]


@dataclass(frozen=True)
class Names:
    character: str
    english: str
    japanese: str


def write_bundle(
    target: Path,
    names: Names,
    consent: Consent,
    trained: TrainedDecoder,
    base: Path,
    *,
    portrait: bytes | None = None,
) -> Path:
    """Write graphs, manifest and portrait (SVG); VoiceFileError if the id is taken or none."""
    named = read_manifest(base).graphs
    shared = {role: graph for role, graph in named.items() if role in SHARED}
    graphs = {
        role: with_weights((base / graph.file).read_bytes(), trained.network)
        for role, graph in named.items()
        if role not in shared
    }
    keep_shared(base, target.parent)
    entries = {role: graph.model_dump() for role, graph in shared.items()}
    entries |= {role: entry(role, content) for role, content in graphs.items()}
    shown = preview(portrait, colour_of(names.character))
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "id": names.character,
        "name": {"ja": names.japanese, "en": names.english},
        "engine": "harmonic",
        "sample_rate": OUTPUT_RATE,
        "graphs": entries,
        "pitch": trained.melody.as_manifest(),
        "limits": LIMITS,
        **owner_fields(consent),
        "origin": {
            "source": consent.source,
            "author": consent.author or consent.owner[:200],
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "tool": TOOL,
        },
        "preview": shown,
    }
    write_files(target, manifest, graphs, portrait)
    return target


def put_into(bundle: Path, network: Network) -> None:
    for role, graph in read_manifest(bundle).graphs.items():
        if role not in SHARED:
            file = bundle / graph.file
            write_whole(file, with_weights(file.read_bytes(), network))
    seal_manifest(bundle, MAX_BUNDLE_BYTES)


def give_head(bundle: Path, speaking: bytes) -> None:
    """Let whole recordings be spoken by a graph with a head; streams go on without one."""
    hearing = read_manifest(bundle).graphs[CONTENT_STREAM].sha256
    stream, harmonic = (bundle / f"{role}.onnx" for role in (STREAM, HARMONIC))
    holders = harmonic, bundle.parent / ENCODERS / f"{hearing}.onnx"
    take_in_weights(stream, *holders)
    write_whole(harmonic, speaking)
    leave_out_weights(stream, *holders)
    seal_manifest(bundle, MAX_BUNDLE_BYTES)


def keep_shared(bundle: Path, characters: Path) -> None:
    folder = characters / ENCODERS
    for role, graph in read_manifest(bundle).graphs.items():
        file = folder / f"{graph.sha256}.onnx"
        if role in SHARED and not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for suffix in (".json", ".onnx"):
                there = bundle.parent / ENCODERS / file.with_suffix(suffix).name
                write_whole(file.with_suffix(suffix), there.read_bytes())


_MEASURED_WITH, _TIMES = 25, 2


def give_spectrum(bundle: Path, network: Network, spoken: Sequence[Utterance]) -> None:
    some = spoken[:: max(1, len(spoken) // _MEASURED_WITH)]
    waves = [resample(one.samples, one.rate, OUTPUT_RATE) for one in some]
    for _ in range(_TIMES):
        converter = BundleConverter.of(bundle)
        said = [converter.raw(wave, OUTPUT_RATE) for wave in waves]
        give_back(network, lacking(waves, said, min(one.rate for one in some)))
        put_into(bundle, network)
