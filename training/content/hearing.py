"""Hears content in the training as the engine does, with the graph that characters share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnxruntime

from shared.characters.manifest import read_manifest
from speech.bundles.files import find_graph
from speech.engines.harmonic.content import LOUDEST, PRIOR_FRAMES, ROLE, SOFTEST
from training.sound.features import HOP, Floats

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class Ear:
    """Hears what is said.

    Args:
        file: the graph of the role `content`.
    """

    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )

    @classmethod
    def of(cls, bundle: Path) -> Ear:
        """The one that a character hears with."""
        graph = read_manifest(bundle).graphs[ROLE]
        return cls(find_graph(bundle, graph.file, graph.sha256))

    def hear(self, wave: Floats, speaking: NDArray[np.bool_], speed: float = 1.0) -> Floats:
        """Return the content [T, 128] of up to 30 s, without its mean while somebody speaks.

        Args:
            wave: float32 at 16 kHz.
            speaking: bool [T], of the speech before it was sped up.
            speed: by what factor it was.
        """
        steps = max(4, -(-len(wave) // (2 * HOP)))
        whole = np.zeros((1, 2 * HOP * steps), np.float32)
        whole[0, : len(wave)] = wave
        whole *= LOUDEST / max(float(np.abs(whole).max()), SOFTEST)
        heard = np.asarray(self._session.run(["content"], {"wave": whole})[0])[0]
        position = np.minimum(np.arange(len(speaking)) / speed, len(heard) - 1)
        before = position.astype(int)
        after = np.minimum(before + 1, len(heard) - 1)
        share = (position - before).astype(np.float32)[:, None]
        content = heard[before] * (1 - share) + heard[after] * share
        mean = content[speaking].sum(0) / (speaking.sum() + PRIOR_FRAMES)
        return np.asarray(content - mean, np.float32)
