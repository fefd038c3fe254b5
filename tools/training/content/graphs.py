"""Makes characters that hear with the shared encoder hearable while somebody speaks.

    python -m tools.training.content.graphs STUDENT BUNDLE...

STUDENT holds the weights of the small encoder that `tools.training.content.student` taught. It
becomes the graph `content_stream` among those that characters share, and each bundle gets its graph
`harmonic_stream`, which keeps its state and takes its weights from both.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from shared.characters.manifest import ENCODERS, MANIFEST, read_manifest
from shared.runtime.process import write_whole
from shared.speech.graphs.onnx_files import with_weights_of
from tools.bundles.encoder_store import EncoderStore
from tools.bundles.writer import entry
from tools.training.content.encoder import CHANNELS
from tools.training.decoder.export import ExportError, compare_graph, load_network, write_graph
from tools.training.decoder.fast_transforms import FoldedEar
from tools.training.decoder.head import Decoded, Head, HeadVoice
from tools.training.decoder.network import OUTPUT_HOP, VOICING_SHARPNESS, Network, Size
from tools.training.decoder.stream import StreamGraph, check_stream, example, leave_out_weights

SIZE = Size(content=CHANNELS, encoder_blocks=8, encoder_dilations=(1, 2, 4, 8))
"""The student hears 0.32 s of what came before; while streaming, 0.12 s of what comes."""
HARMONIC, STREAM = "harmonic", "harmonic_stream"
CONTENT, CONTENT_STREAM = "content", "content_stream"
_INPUTS = ("content", "f0", "voicing", "noise")
_HEARING = "hearing."


class NeuralGraph(nn.Module):
    """Content, melody and noise in, samples out, by a decoder with a neural head.

    Inputs (f32): `content` [1, T, 128], `f0` [1, T] Hz and positive throughout, `voicing` [1, T]
    0..1, `noise` [1, (T + 1) * 240] standard normal. Output: `audio` [1, 240 T] at 24 kHz.
    """

    def __init__(self, network: Network, head: Head) -> None:
        super().__init__()
        self.network = network
        self.network.head = head
        self.voice = HeadVoice()

    def forward(self, content: Tensor, f0: Tensor, voicing: Tensor, noise: Tensor) -> Tensor:
        head = self.network.head
        hidden, cepstrum, logit = self.network.hidden(content.transpose(1, 2), f0, voicing)
        voiced = torch.sigmoid(logit * VOICING_SHARPNESS)
        said = Decoded(hidden, cepstrum, voiced, f0, voicing)
        return self.voice.speak(head, said, head.frames(said), noise)[0]


class HearingGraph(FoldedEar):
    """The student: `wave` [1, 160 T] at 16 kHz to `content` [1, T, 128] without a mean."""

    def forward(self, wave: Tensor) -> Tensor:
        mel = self.network.normalise(self.mel_power(wave))
        return self.network.hear(mel).transpose(1, 2)


def export_speaking(network: Network, head: Head, file: Path) -> None:
    graph = NeuralGraph(network, head).eval()
    frames = torch.export.Dim("frames", min=8, max=1_000_000)
    write_graph(
        file,
        graph,
        speaking_inputs(150),
        input_names=list(_INPUTS),
        output_names=["audio"],
        dynamic_shapes=({1: frames}, {1: frames}, {1: frames}, {1: 240 * frames + 240}),
    )
    for count in (8, 333):
        inputs = speaking_inputs(count)
        names = {name: one.numpy() for name, one in zip(_INPUTS, inputs, strict=True)}
        compare_graph(file, names, graph(*inputs))


def export_hearing(network: Network, file: Path) -> None:
    graph = HearingGraph(network).eval()
    frames = torch.export.Dim("frames", min=8, max=1_000_000)
    write_graph(
        file,
        graph,
        (wave_of(150),),
        input_names=["wave"],
        output_names=["content"],
        dynamic_shapes=({1: 160 * frames},),
    )
    model = onnx.load(file)
    # No tensor of a character's graph has one of these names.
    names = {"wave": "wave", "content": "content", "": ""}
    for weight in model.graph.initializer:
        weight.name = f"{_HEARING}{weight.name}"
    for node in model.graph.node:
        node.input[:] = [names.get(name, f"{_HEARING}{name}") for name in node.input]
        node.output[:] = [names.get(name, f"{_HEARING}{name}") for name in node.output]
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, file)
    for count in (8, 333):
        wave = wave_of(count)
        compare_graph(file, {"wave": wave.numpy()}, graph(wave))


def export_stream(network: Network, file: Path, harmonic: Path, hearing: Path) -> None:
    """Write the graph of the role `harmonic_stream`, without the weights of the two others."""
    graph = StreamGraph(network).eval()
    state = graph.state()
    write_graph(
        file,
        graph,
        (*example(graph), *state.values()),
        input_names=["wave", "f0", "voicing", "noise", *state],
        output_names=["audio", *(f"next_{name}" for name in state)],
    )
    leave_out_weights(file, harmonic, hearing)
    content = with_weights_of(file.read_bytes(), harmonic.read_bytes())
    check_stream(graph, file.name, with_weights_of(content, hearing.read_bytes()))


def speaking_inputs(frames: int) -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(frames)
    return (
        torch.randn(1, frames, CHANNELS, generator=random),
        torch.rand(1, frames, generator=random) * 100 + 180,
        torch.rand(1, frames, generator=random),
        torch.randn(1, OUTPUT_HOP * (frames + 1), generator=random),
    )


def wave_of(frames: int) -> Tensor:
    return torch.randn(1, 160 * frames, generator=torch.Generator().manual_seed(frames)) * 0.05


ORIGIN = "small encoder for streams, taught by the encoder of Whisper base (OpenAI, MIT licence)"


def write_student(weights: Path, characters: Path) -> str:
    network = Network(SIZE)
    network.load_state_dict(torch.load(weights, weights_only=True), strict=False)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{CONTENT_STREAM}.onnx"
        export_hearing(network.eval(), file)
        return EncoderStore(characters).add(file.read_bytes(), ORIGIN).sha256


def make_live(bundle: Path, student: str) -> None:
    """Write `harmonic_stream` of a character; `student` is the SHA-256 of what it hears with."""
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
    weights, *bundles = map(Path, arguments)
    for bundle in bundles:
        make_live(bundle, write_student(weights, bundle.parent))
        print(f"{bundle.name} can be heard while somebody speaks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
