"""Makes characters that hear with the shared encoder hearable while somebody speaks.

    python -m tools.training.content.graphs BUNDLE...

The encoder that `tools.training.content.student` taught to hear in windows becomes the graph
`content_stream` among those that characters share, and each bundle gets its graph
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
from tools.bundles.encoder_store import EncoderStore
from tools.bundles.writer import entry
from tools.training.content.encoder import (
    CHANNELS,
    ROLE,
    EncoderNetwork,
    export_encoder,
    read_encoder,
)
from tools.training.content.shared_encoder import encoder_of
from tools.training.content.window import WindowEar, WindowedEncoder
from tools.training.decoder.export import (
    ExportError,
    compare_graph,
    load_network,
    narrow_products,
    write_graph,
)
from tools.training.decoder.head import Decoded, Head, HeadVoice
from tools.training.decoder.network import OUTPUT_HOP, VOICING_SHARPNESS, Network, Size
from tools.training.decoder.stream import (
    FRAMES,
    LOOKAHEAD,
    StreamGraph,
    check_stream,
    example,
    leave_out_weights,
)

SIZE = Size(content=CHANNELS)
HARMONIC, STREAM = "harmonic", "harmonic_stream"
CONTENT_STREAM = "content_stream"
_HEARING = "hearing."
TAUGHT = Path(__file__).with_name("window.npz")
_INPUTS = ("content", "f0", "voicing", "noise")
_WEIGHTS = ("network.", "ear.encoder.network.", "val_")


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


def export_hearing(encoder: EncoderNetwork, file: Path) -> None:
    """Write the encoder for windows as it hears a whole recording; see `export_encoder`."""
    export_encoder(encoder, file)
    narrow_products(file)
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


def export_stream(network: Network, encoder: WindowedEncoder, file: Path, *holders: Path) -> None:
    """Write the graph of the role `harmonic_stream`, without the weights that `holders` have."""
    graph = StreamGraph(network, WindowEar(encoder, FRAMES, LOOKAHEAD)).eval()
    state = graph.state()
    write_graph(
        file,
        graph,
        (*example(graph), *state.values()),
        input_names=["wave", "f0", "voicing", "noise", *state],
        output_names=["audio", *(f"next_{name}" for name in state)],
        is_table=lambda name: not name.startswith(_WEIGHTS),
    )
    check_stream(graph, file.name, file.read_bytes())
    narrow_products(file)
    leave_out_weights(file, *holders)


def speaking_inputs(frames: int) -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(frames)
    return (
        torch.randn(1, frames, CHANNELS, generator=random),
        torch.rand(1, frames, generator=random) * 100 + 180,
        torch.rand(1, frames, generator=random),
        torch.randn(1, OUTPUT_HOP * (frames + 1), generator=random),
    )


def has_decoder(stream: Path) -> bool:
    """Tell streams with a decoder of their own, which has no head and is heard sooner."""
    if not stream.exists():
        return False
    names = {one.name for one in onnx.load(stream).graph.initializer}
    return any("network.decoder." in name and name.endswith(".weight.half") for name in names)


ORIGIN = "encoder of Whisper base (OpenAI, MIT licence), taught to hear in windows"


def write_hearing(bundle: Path) -> str:
    """Store the encoder for windows among those that characters share; return its SHA-256."""
    whole = read_encoder(encoder_of(bundle))
    whole.network = WindowedEncoder(whole).load(TAUGHT).merge().network
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{CONTENT_STREAM}.onnx"
        export_hearing(whole, file)
        return EncoderStore(bundle.parent).add(file.read_bytes(), ORIGIN).sha256


def make_live(bundle: Path, hearing: str) -> None:
    """Write `harmonic_stream` of a character; `hearing` is the SHA-256 of what it hears with."""
    if ROLE not in read_manifest(bundle).graphs:
        raise ExportError(f"{bundle.name}: expected a character with the graph {ROLE}")
    shared = bundle.parent / ENCODERS / f"{hearing}.onnx"
    speaking, file = bundle / f"{HARMONIC}.onnx", bundle / f"{STREAM}.onnx"
    network = load_network(file if has_decoder(file) else speaking, SIZE)
    encoder = WindowedEncoder(read_encoder(encoder_of(bundle))).load(TAUGHT).merge()
    export_stream(network, encoder, file, speaking, shared)
    manifest: dict[str, Any] = json.loads((bundle / MANIFEST).read_text("utf-8"))
    manifest["graphs"][CONTENT_STREAM] = entry(CONTENT_STREAM, shared.read_bytes())
    manifest["graphs"][STREAM] = entry(STREAM, file.read_bytes())
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    write_whole(bundle / MANIFEST, text.encode())


def main(arguments: list[str]) -> int:
    for bundle in map(Path, arguments):
        make_live(bundle, write_hearing(bundle))
        print(f"{bundle.name} can be heard while somebody speaks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
