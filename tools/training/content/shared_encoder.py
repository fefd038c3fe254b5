"""Hears content in the training as the engine does, with the graph that characters share."""

import hashlib
import struct
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from shared.characters.bundle_files import find_graph
from shared.characters.manifest import read_manifest
from shared.speech.engines.content_encoder import LOUDEST, PRIOR_FRAMES, ROLE, SOFTEST
from tools.training.decoder.features import HOP, Floats


class SharedEncoder:
    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )

    @classmethod
    def of(cls, bundle: Path) -> "SharedEncoder":
        return cls(encoder_of(bundle))

    def hear(self, wave: Floats, speaking: NDArray[np.bool_], speed: float = 1.0) -> Floats:
        """Content [T, 128] of up to 30 s of speech that was sped up, without its mean."""
        heard = self.listen(wave)
        position = np.minimum(np.arange(len(speaking)) / speed, len(heard) - 1)
        before = position.astype(int)
        after = np.minimum(before + 1, len(heard) - 1)
        share = (position - before).astype(np.float32)[:, None]
        content = heard[before] * (1 - share) + heard[after] * share
        mean = content[speaking].sum(0) / (speaking.sum() + PRIOR_FRAMES)
        return np.asarray(content - mean, np.float32)

    def listen(self, wave: Floats) -> Floats:
        """Content [T, 128] of up to 30 s of speech, T even, with its mean."""
        steps = max(4, -(-len(wave) // (2 * HOP)))
        whole = np.zeros((1, 2 * HOP * steps), np.float32)
        whole[0, : len(wave)] = wave
        whole *= LOUDEST / max(float(np.abs(whole).max()), SOFTEST)
        return np.asarray(self._session.run(["content"], {"wave": whole})[0])[0]


def encoder_of(bundle: Path) -> Path:
    """The graph of the encoder that a character hears with."""
    graph = read_manifest(bundle).graphs[ROLE]
    return find_graph(bundle, graph.file, graph.sha256)


MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
"""Of the `model.bin` of Whisper base, multilingual, in half precision."""

_KINDS = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}


class WeightsError(ValueError): ...


def read_encoder_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != MODEL_SHA256:
        raise WeightsError(
            f"{path.name}: expected Whisper base with the SHA-256 {MODEL_SHA256}, found {found}."
        )
    return {
        name.removeprefix("encoder/"): value.astype(np.float32)
        for name, value in read_weights(content).items()
        if name.startswith("encoder/")
    }


def read_weights(content: bytes) -> dict[str, NDArray[np.generic]]:
    """Read all weights: version, name, revision and count, then each one with its shape."""
    place = 4
    _, place = read_text(content, place)
    (count,) = struct.unpack_from("<I", content, place + 4)
    place += 8
    weights = {}
    for _ in range(count):
        name, place = read_text(content, place)
        rank = content[place]
        shape = struct.unpack_from(f"<{rank}I", content, place + 1)
        place += 1 + 4 * rank
        kind = np.dtype(_KINDS[content[place]])
        (size,) = struct.unpack_from("<I", content, place + 1)
        place += 5
        values = np.frombuffer(content, kind, size // kind.itemsize, place)
        weights[name] = values.reshape(shape)
        place += size
    return weights


def read_text(content: bytes, place: int) -> tuple[str, int]:
    """Read a text that ends with a zero, with its length before it; return it and its end."""
    (length,) = struct.unpack_from("<H", content, place)
    begin = place + 2
    return content[begin : begin + length - 1].decode(), begin + length
