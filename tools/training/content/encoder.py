"""Writes the content encoder as a graph that characters share, and checks it.

python -m tools.training.content.encoder MODEL PROJECTION FOLDER
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tools.bundles.encoder_store import EncoderStore
from tools.training.content.shared_encoder import read_encoder_weights
from tools.training.decoder.export import compare_graph, write_graph

RATE = 16_000
HOP = 160
WINDOW = 400
BANDS = 80
WIDTH = 512
LAYERS = 6
HEADS = 8
LONGEST_FRAMES = 3_000  # of 10 ms, that the encoder hears at once: 30 s
HEAD_WIDTH = WIDTH // HEADS
FLOOR = 1e-10
RANGE = 8.0  # the decades of power below the loudest that are heard
LOUDEST = 1.5
"""Where the loudest moment lies, in decades of mel power: as for speech that fills the scale.

Whisper takes the level as it comes. Here it is the same for every recording, so that microphone and
distance matter less.
"""


def mel_filters() -> NDArray[np.float64]:
    """Slaney's triangular filters of equal area [201, 80], from 0 to 8 kHz."""
    below_hz, step = 1_000.0, 200.0 / 3
    log_step = np.log(6.4) / 27

    def to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
        knee = below_hz / step
        high = below_hz * np.exp(log_step * np.maximum(mel - knee, 0))
        return np.where(mel < knee, mel * step, high)

    top = below_hz / step + np.log(RATE / 2 / below_hz) / log_step
    corners = to_hertz(np.linspace(0, top, BANDS + 2))
    hertz = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    rising = (hertz[:, None] - corners[:-2]) / np.diff(corners)[:-1]
    falling = (corners[2:] - hertz[:, None]) / np.diff(corners)[1:]
    height = 2 / (corners[2:] - corners[:-2])
    filters: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * height
    return filters


class LogMel(nn.Module):
    """Samples [1, 160 T] at 16 kHz to Whisper's input [1, 80, T]; frame t is centred at 160 t."""

    cosine: Tensor
    sine: Tensor
    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
        # The window of 400 samples lies in the middle of three hops of 160.
        window = np.pad(hann, 40)
        angle = 2 * np.pi * np.outer(np.arange(480) - 40, np.arange(WINDOW // 2 + 1)) / WINDOW
        tables = {
            "cosine": np.cos(angle) * window[:, None],
            "sine": np.sin(angle) * window[:, None],
            "filters": mel_filters(),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.tensor(table, dtype=torch.float32))

    def forward(self, wave: Tensor) -> Tensor:
        hops = functional.pad(wave, (240, 240)).reshape(len(wave), -1, HOP)
        frames = torch.cat([hops[:, :-2], hops[:, 1:-1], hops[:, 2:]], -1)[:, :-1]
        power = ((frames @ self.cosine) ** 2 + (frames @ self.sine) ** 2) @ self.filters
        log = torch.log(power.clamp_min(FLOOR)) * (1 / np.log(10.0))
        loudest = log.amax((1, 2), keepdim=True)
        log = torch.maximum(log, loudest - RANGE)
        log = log - loudest + LOUDEST
        return (log.transpose(1, 2) + 4.0) / 4.0


class WhisperBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.after_attention = nn.Linear(WIDTH, WIDTH)
        self.before_network = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.queries_keys_values(self.before_attention(x)).reshape(
            len(x), -1, 3, HEADS, HEAD_WIDTH
        )
        queries, keys, values = (parts[:, :, part].transpose(1, 2) for part in range(3))
        weights = torch.softmax(queries @ keys.transpose(2, 3) * HEAD_WIDTH**-0.5, -1)
        heard = (weights @ values).transpose(1, 2).reshape(len(x), -1, WIDTH)
        x = x + self.after_attention(heard)
        return x + self.narrow(functional.gelu(self.widen(self.before_network(x))))


class WhisperEncoder(nn.Module):
    """Log mel spectrum [1, 80, T], T even and at most 3000, to answers [1, T / 2, 512]."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow_in_time = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.entry = nn.Conv1d(BANDS, WIDTH, 3, padding=1)
        self.positions = nn.Parameter(torch.zeros(LONGEST_FRAMES // 2, WIDTH))
        self.blocks = nn.Sequential(*(WhisperBlock() for _ in range(LAYERS)))
        self.end = nn.LayerNorm(WIDTH)

    def forward(self, mel: Tensor) -> Tensor:
        x = functional.gelu(self.entry(mel))
        x = functional.gelu(self.narrow_in_time(x)).transpose(1, 2)
        x = x + self.positions[: x.shape[1]]
        return self.end(self.blocks(x))


def load_encoder(weights: Mapping[str, NDArray[np.float32]]) -> WhisperEncoder:
    places = {"entry": "conv1", "narrow_in_time": "conv2", "end": "layer_norm"}
    for number in range(LAYERS):
        layer, block = f"layer_{number}", f"blocks.{number}"
        places |= {
            f"{block}.before_attention": f"{layer}/self_attention/layer_norm",
            f"{block}.queries_keys_values": f"{layer}/self_attention/linear_0",
            f"{block}.after_attention": f"{layer}/self_attention/linear_1",
            f"{block}.before_network": f"{layer}/ffn/layer_norm",
            f"{block}.widen": f"{layer}/ffn/linear_0",
            f"{block}.narrow": f"{layer}/ffn/linear_1",
        }
    state = {"positions": torch.from_numpy(weights["position_encodings/encodings"])}
    for place, name in places.items():
        is_norm = name.endswith("layer_norm")
        for ours, theirs in (("weight", "gamma"), ("bias", "beta")):
            value = weights[f"{name}/{theirs if is_norm else ours}"]
            state[f"{place}.{ours}"] = torch.from_numpy(value)
    encoder = WhisperEncoder()
    encoder.load_state_dict(state)
    return encoder.eval()


CHANNELS = 128
_PROJECTION = Path(__file__).with_name("projection.npz")
_MEL_PRODUCTS = 3


@dataclass(frozen=True)
class Projection:
    """From Whisper's answers to content: `(answer - mean) @ matrix`, [512] and [512, 128]."""

    mean: NDArray[np.float32]
    matrix: NDArray[np.float32]

    @classmethod
    def load(cls, file: Path) -> "Projection":
        with np.load(file) as kept:
            return cls(kept["mean"], kept["matrix"])


class EncoderNetwork(nn.Module):
    """The network that is exported: wave [1, 320 K] at 16 kHz to content [1, 2 K, 128]."""

    def __init__(self, whisper: WhisperEncoder, projection: Projection) -> None:
        super().__init__()
        self.mel = LogMel()
        self.network = whisper
        self.network.projection = nn.Linear(WIDTH, CHANNELS)
        matrix, mean = torch.from_numpy(projection.matrix), torch.from_numpy(projection.mean)
        with torch.no_grad():
            self.network.projection.weight.copy_(matrix.T)
            self.network.projection.bias.copy_(-mean @ matrix)

    def forward(self, wave: Tensor) -> Tensor:
        """Hear; every second frame lies between two answers and is their mean."""
        heard = self.network.projection(self.network(self.mel(wave)))
        after = torch.cat([heard[:, 1:], heard[:, -1:]], 1)
        return torch.stack([heard, (heard + after) / 2], 2).flatten(1, 2)


_PRODUCTS = ("queries_keys_values", "after_attention", "widen", "narrow")


def read_encoder(file: Path) -> EncoderNetwork:
    """Read the shared encoder out of its graph, with weights of half precision."""
    model = onnx.load(file)
    values = {
        one.name.removesuffix(".half"): torch.tensor(onnx.numpy_helper.to_array(one)).float()
        for one in model.graph.initializer
    }
    network = EncoderNetwork(WhisperEncoder(), Projection.load(_PROJECTION))
    # The export gives the matrices of products numbers instead of names, in their order.
    places = [f"blocks.{number}.{name}" for number in range(LAYERS) for name in _PRODUCTS]
    products = [
        values[node.input[1]].T
        for node in model.graph.node
        if node.op_type in {"MatMul", "Gemm"} and node.input[1] in values
    ][_MEL_PRODUCTS:]
    names = (f"network.{place}.weight" for place in (*places, "projection"))
    network.load_state_dict(values | dict(zip(names, products, strict=True)), strict=False)
    return network.eval()


ROLE = "content"
ORIGIN = (
    "encoder of Whisper base, multilingual (OpenAI, MIT licence; converted by Systran), with a"
    " projection to 128 numbers"
)


def export_encoder(encoder: EncoderNetwork, file: Path) -> None:
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
    for steps in (4, 100, 333):
        wave = example(steps)
        with torch.no_grad():
            compare_graph(file, {"wave": wave.numpy()}, encoder(wave))


def example(steps: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(steps)
    return torch.randn(1, 320 * steps, generator=random) * 0.05


def main(arguments: list[str]) -> int:
    model, projection, folder = map(Path, arguments)
    whisper = load_encoder(read_encoder_weights(model))
    file = folder / "content.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    export_encoder(EncoderNetwork(whisper, Projection.load(projection)), file)
    stored = EncoderStore(folder).add(file.read_bytes(), ORIGIN)
    file.unlink()
    print(f"{stored.sha256} {stored.bytes / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
