"""Kokoro's network: from symbols and a style vector to speech.

It takes N symbols with the number 0 at both ends

    tokens  int64 [1, N + 2]
    style   float32 [1, 256]
    speed   float32 [1]

and gives `audio`, float32 [samples], at 24 kHz. It leaves nothing to chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import soxr

from speech.bundles.bundle import Graph
from speech.bundles.files import BundleError
from speech.bundles.onnx_model import ModelFacts
from speech.engines.kokoro.packages import (
    NETWORK_SHA256,
    STYLE_ROWS,
    KokoroMissingError,
    read_files,
    read_network,
)
from speech.networks.session import find_session, shared_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech.engines.kokoro.mixture import Mixture
    from speech.networks.session import GraphSession
    from speech.networks.settings import SessionSettings
    from speech.signal.arrays import Samples

SAMPLE_RATE: Final = 24_000
MOST_SYMBOLS: Final = STYLE_ROWS
_END = 0


class Synthesis:
    """Speaks symbols with a voice; any number of threads use it at once, without a lock.

    Args:
        session: the network.
        symbols: the number of each symbol.
        style: the voice's style vectors, float32 [510, 256].
        tract: by what factor the vocal tract is shorter than the network's voice has it.
    """

    def __init__(
        self, session: GraphSession, symbols: Mapping[str, int], style: Samples, tract: float
    ) -> None:
        self._session = session
        self._symbols = symbols
        self._style = style
        self._tract = tract

    def speak(self, symbols: str, speed: float) -> Samples:
        """Speak symbols: float32 [samples] at 24 kHz; nothing if there is nothing to say.

        A shorter tract comes of samples that are played faster, which the network makes up for by
        speaking slower.

        Args:
            symbols: of one breath; what the network has no number for is left out, and what goes
                beyond 510, too.
            speed: how fast; 2 is twice as fast as the voice speaks by itself.
        """
        numbers = [self._symbols[symbol] for symbol in symbols if symbol in self._symbols]
        numbers = numbers[:MOST_SYMBOLS]
        if not numbers:
            return np.zeros(0, np.float32)
        inputs = {
            "tokens": np.array([[_END, *numbers, _END]], np.int64),
            "style": self._style[len(numbers) - 1][None],
            "speed": np.array([speed / self._tract], np.float32),
        }
        spoken = self._session.run(inputs, "audio").ravel()
        return np.asarray(
            soxr.resample(spoken, SAMPLE_RATE * self._tract, SAMPLE_RATE, quality="VHQ"), np.float32
        )


def load(mixture: Mixture, settings: SessionSettings) -> Synthesis:
    """Load the network, or share it with another voice of the process, and mix a voice.

    Raises:
        BundleError: the packages are not installed or hold other files, or the runtime refuses the
            network.
        KeyError: the mixture names a voice that there is not.
    """
    try:
        files = read_files()
        session = find_session(NETWORK_SHA256, settings)
        if session is None:
            # Its SHA-256 vouches for it: the inspection of strangers' files refuses its operators.
            graph = Graph("kokoro.onnx", read_network(), ModelFacts({}, {}), NETWORK_SHA256)
            session = shared_session(graph, settings)
    except KokoroMissingError as error:
        raise BundleError(str(error)) from error
    return Synthesis(session, files.symbols, mixture.style(files.voices), mixture.tract)
