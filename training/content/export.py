"""Writes the content encoder as a graph that characters share, and checks it.

python -m training.content.export MODEL PROJECTION FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from importing.encoders.encoder_store import EncoderStore
from training.content.encoder import ContentEncoder, Projection
from training.content.whisper import load_encoder
from training.content.whisper_weights import read_encoder_weights
from training.decoder.export import ExportError, write_graph

ROLE = "content"
ORIGIN = (
    "encoder of Whisper base, multilingual (OpenAI, MIT licence; converted by Systran), with a"
    " projection to 128 numbers"
)
TOLERANCE = 0.01


def export_encoder(encoder: ContentEncoder, file: Path) -> None:
    """Write the graph.

    Raises:
        ExportError: the graph gives another content than the network.
    """
    steps = torch.export.Dim("steps", min=4, max=1_500)
    write_graph(
        file,
        encoder.eval(),
        (example(100),),
        input_names=["wave"],
        output_names=["content"],
        dynamic_shapes=({1: 320 * steps},),
        is_table=lambda name: name.startswith("mel."),
    )
    _check(encoder, file)


def example(steps: int) -> torch.Tensor:
    """Something to try it with, [1, 320 steps]."""
    random = torch.Generator().manual_seed(steps)
    return torch.randn(1, 320 * steps, generator=random) * 0.05


def _check(encoder: ContentEncoder, file: Path) -> None:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for steps in (4, 100, 333):
        wave = example(steps)
        with torch.no_grad():
            expected = encoder(wave).numpy()
        found = np.asarray(session.run(None, {"wave": wave.numpy()})[0])
        difference = np.abs(found - expected).mean() / np.abs(expected).mean()
        if found.shape != expected.shape or difference > TOLERANCE:
            raise ExportError(
                f"{file.name}: with {steps} steps expected {expected.shape} as in the network,"
                f" found {found.shape} differing by {difference:.1%}"
            )


def main(arguments: list[str]) -> int:
    """Write the encoder among those that characters share."""
    model, projection, folder = map(Path, arguments)
    whisper = load_encoder(read_encoder_weights(model))
    file = folder / "content.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    export_encoder(ContentEncoder(whisper, Projection.load(projection)), file)
    stored = EncoderStore(folder).add(file.read_bytes(), ORIGIN)
    file.unlink()
    print(f"{stored.sha256} {stored.bytes / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
