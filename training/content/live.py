"""Makes characters that hear with the shared encoder hearable while somebody speaks.

    python -m training.content.live STUDENT BUNDLE...

STUDENT holds the weights of the small encoder that `training.content.student` taught. It becomes
the graph `content_stream` among those that characters share, and each bundle gets its graph
`harmonic_stream`, which keeps its state and takes its weights from both.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from importing.bundles.bundles import entry
from importing.encoders.encoder_store import EncoderStore
from shared.characters.manifest import ENCODERS, MANIFEST, read_manifest
from shared.process.writing import write_whole
from training.content.graphs import (
    CONTENT,
    CONTENT_STREAM,
    HARMONIC,
    SIZE,
    STREAM,
    export_hearing,
    export_stream,
)
from training.decoder.export import ExportError
from training.decoder.graph_weights import load_network
from training.decoder.network import Network

ORIGIN = "small encoder for streams, taught by the encoder of Whisper base (OpenAI, MIT licence)"


def write_student(weights: Path, characters: Path) -> str:
    """Write the graph of the role `content_stream` among the encoders; return its SHA-256."""
    network = Network(SIZE)
    network.load_state_dict(torch.load(weights, weights_only=True), strict=False)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{CONTENT_STREAM}.onnx"
        export_hearing(network.eval(), file)
        return EncoderStore(characters).add(file.read_bytes(), ORIGIN).sha256


def make_live(bundle: Path, student: str) -> None:
    """Write the graph `harmonic_stream` of a character, and name both graphs in its manifest.

    Args:
        bundle: of a character that hears with the shared encoder.
        student: the SHA-256 of the graph `content_stream`, which lies beside the bundle.

    Raises:
        ExportError: the character hears in another way, or the graph speaks something else.
    """
    if CONTENT not in read_manifest(bundle).graphs:
        raise ExportError(f"{bundle.name}: expected a character with the graph {CONTENT}")
    shared = bundle.parent / ENCODERS / f"{student}.onnx"
    network = load_network(bundle / f"{HARMONIC}.onnx", shared, SIZE)
    file = bundle / f"{STREAM}.onnx"
    export_stream(network, file, bundle / f"{HARMONIC}.onnx", shared)
    manifest: dict[str, Any] = json.loads((bundle / MANIFEST).read_text("utf-8"))
    manifest["graphs"][CONTENT_STREAM] = entry(CONTENT_STREAM, shared.read_bytes())
    manifest["graphs"][STREAM] = entry(STREAM, file.read_bytes())
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    write_whole(bundle / MANIFEST, text.encode())


def main(arguments: list[str]) -> int:
    """Write the student and make bundles live."""
    weights, *bundles = map(Path, arguments)
    for bundle in bundles:
        make_live(bundle, write_student(weights, bundle.parent))
        print(f"{bundle.name} can be heard while somebody speaks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
