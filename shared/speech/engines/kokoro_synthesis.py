"""Kokoro-82M's network: speaks symbols with a mixed voice, one window of time after the other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import soxr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.speech.engines.kokoro_graph import DECODER, GENERATOR, bias_of, decoder_graph, floats
from shared.speech.engines.kokoro_packages import (
    STYLE_ROWS,
    STYLE_SIZE,
    KokoroMissingError,
    KokoroPackages,
    Mixture,
)
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.model_parts import ModelParts
from shared.speech.graphs.onnx_files import ModelFacts
from shared.speech.graphs.sessions import GraphSession, Provider, SessionSettings
from shared.speech.signal.sound import Samples

SAMPLE_RATE: Final = 24_000
MOST_SYMBOLS: Final = STYLE_ROWS
STATISTICS: Final = Path(__file__).with_name("kokoro_statistics.npz")
"""Means and logarithms of deviations of each channel before each normalisation, of NOBODY."""
FEWEST_IN_WINDOWS: Final = 30  # symbols; shorter sentences differ too much from each other
LENGTHS: Final = (6, 12, 25, 50, 100, 200)  # symbols of the sentences that have these statistics

FRAME: Final = 600  # samples of the encoder's frame of 25 ms
AROUND: Final = 9  # frames on both sides of a window that the decoder hears
_AROUND_SOUND = 2  # frames that the generator computes around a window, of three that it hears
FIRST_FRAMES, _LONGER, _MOST_FRAMES = 7, 1.5, 80
_LEAD_FRAMES = 3  # frames of the silence at the beginning that are spoken

_HIDDEN, _F0, _ENERGY, _FRAMES = (
    f"/encoder/{name}_output_0" for name in ("MatMul_1", "Reshape", "Reshape_1", "Gather")
)
_END = 0
_HARMONICS = 9
_PITCH_SAMPLES, _VOICED_HZ, _SINE = 300, 10, 0.1
_HOP, _SPECTRUM, _BINS = 5, 20, 11
_PER_FRAME = FRAME // _HOP  # spectra of a frame
_SCALE = np.float32(_SPECTRUM / _HOP)


class MultiOutputGraph(Protocol):
    def run_all(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]
    ) -> list[NDArray[Any]]:
        """Return several outputs of a graph."""


@dataclass(frozen=True, eq=False)
class KokoroNetworks:
    """The packages' own graph, its encoder, the graph of a window, and the weights beside them.

    The curves' weights are those of f0 and of energy, each with a bias; `source` is that of the
    harmonics, `window` and `basis` are those of spectra.
    """

    whole: MultiOutputGraph
    encoder: MultiOutputGraph
    decoder: MultiOutputGraph
    curves: Sequence[tuple[Samples, Samples]]
    source: Samples
    source_bias: Samples
    window: Samples
    basis: Samples

    @classmethod
    def load(cls, packages: KokoroPackages, settings: SessionSettings) -> "KokoroNetworks":
        content = packages.read_network()
        parts = ModelParts(content)
        with np.load(STATISTICS) as archive:
            statistics = {name: archive[name].astype(np.float32) for name in archive.files}

        def session(content: bytes) -> GraphSession:
            # Its SHA-256 vouches for it: the inspection of strangers' files refuses its operators.
            graph = Graph("kokoro.onnx", content, ModelFacts({}, {}))
            return GraphSession(
                graph, replace(settings, provider=Provider.CPU), returns_memory=True
            )

        layers = [f"{DECODER}{name}" for name in ("F0_conv", "N_conv")]
        return cls(
            session(content),
            session(parts.until([_HIDDEN, _F0, _ENERGY, _FRAMES])),
            session(decoder_graph(parts, statistics)),
            [(floats(parts, name)[0, 0], bias_of(parts, name)) for name in layers],
            parts.tensor("onnx::MatMul_6993").ravel(),
            parts.tensor("decoder.decoder.generator.m_source.l_linear.bias"),
            parts.tensor(f"{GENERATOR}Constant_17_output_0"),
            parts.tensor("decoder.decoder.generator.stft.istft.stft.inverse_basis")[:, 0],
        )


class KokoroSynthesis:
    """Speaks symbols with style vectors [510, 256] and a shorter tract; safe for threads."""

    def __init__(
        self, networks: KokoroNetworks, symbols: Mapping[str, int], style: Samples, tract: float
    ) -> None:
        self._networks = networks
        self._symbols = symbols
        self._style = style
        self._tract = tract

    def speak(self, symbols: str, speed: float, sample_rate: int) -> Iterator[Samples]:
        """Speak the symbols of one breath, at most 510, in windows: float32 [samples].

        Samples that are played faster give a shorter tract; the network compensates by speaking
        slower. Most of the silence before the first sound is left out.
        """
        numbers = [self._symbols[symbol] for symbol in symbols if symbol in self._symbols]
        numbers = numbers[:MOST_SYMBOLS]
        if not numbers:
            return
        inputs = {
            "tokens": np.array([[_END, *numbers, _END]], np.int64),
            "style": self._style[len(numbers) - 1][None],
            "speed": np.array([speed / self._tract], np.float32),
        }
        played = SAMPLE_RATE * self._tract
        stream = soxr.ResampleStream(played, sample_rate, 1, dtype="float32", quality="VHQ")
        if len(numbers) < FEWEST_IN_WINDOWS:
            (audio,) = self._networks.whole.run_all(inputs, ["audio"])
            yield stream.resample_chunk(audio.ravel(), last=True)
            return
        outputs = [_HIDDEN, _F0, _ENERGY, _FRAMES]
        hidden, f0, energy, frames = self._networks.encoder.run_all(inputs, outputs)
        voice = {
            "style": inputs["style"][:, : STYLE_SIZE // 2],
            "shares": shares_of_lengths(len(numbers)),
        }
        sentence = _Sentence(self._networks, hidden[0].T, f0.ravel(), energy.ravel(), voice)
        begin, step = max(int(frames[0]) - _LEAD_FRAMES, 0), float(FIRST_FRAMES)
        while begin < sentence.frames:
            end = min(begin + int(step), sentence.frames)
            spoken = sentence.speak(begin, end)
            yield stream.resample_chunk(spoken, last=end == sentence.frames)
            begin, step = end, min(step * _LONGER, _MOST_FRAMES)


def shares_of_lengths(symbols: int) -> Samples:
    """Return the weights of LENGTHS in a sentence of so many symbols, which are one together."""
    places = np.interp(np.log(symbols), np.log(LENGTHS), np.arange(len(LENGTHS)))
    distances = np.abs(places - np.arange(len(LENGTHS)))
    return np.asarray(np.maximum(1 - distances, 0), np.float32)


class _Sentence:
    """Hidden [T, 512], f0 in Hz and energy [2 * T] of a sentence, from which windows are spoken."""

    def __init__(
        self,
        networks: KokoroNetworks,
        hidden: Samples,
        f0: Samples,
        energy: Samples,
        voice: Mapping[str, Samples],
    ) -> None:
        self.frames = len(hidden)
        self._networks = networks
        self._hidden = np.ascontiguousarray(hidden)
        self._f0 = f0
        self._voice = voice
        curves = [
            sliding_window_view(np.pad(curve, 1), 3)[::2] @ weights + bias
            for curve, (weights, bias) in zip((f0, energy), networks.curves, strict=True)
        ]
        self._curves = np.stack(curves, axis=1)
        self._cycles = np.cumsum(f0.astype(np.float64)) * _PITCH_SAMPLES / SAMPLE_RATE

    def speak(self, begin: int, end: int) -> Samples:
        """Speak the frames from `begin` to `end`: float32 [600 * (end - begin)]."""
        first, last = max(begin - AROUND, 0), min(end + AROUND, self.frames)
        start, stop = max(begin - _AROUND_SOUND, 0), min(end + _AROUND_SOUND, self.frames)
        inputs = {
            "hidden": self._hidden[first:last],
            "curves": self._curves[first:last],
            "harmonics": self._harmonics(_PER_FRAME * start - 3, _PER_FRAME * stop + 3),
            **self._voice,
            "begin": np.array([2 * (start - first)], np.int64),
            "end": np.array([2 * (stop - first)], np.int64),
        }
        (spectra,) = self._networks.decoder.run_all(inputs, ["spectra"])
        # The first spectrum is that of the fifth sample, and reaches ten samples to both sides.
        cut = FRAME * (begin - start) + _HOP
        return self._wave(spectra)[cut : cut + FRAME * (end - begin)]

    def _harmonics(self, begin: int, end: int) -> Samples:
        """Magnitudes and phases of sines at multiples of f0: float32 [end - begin, 22]."""
        reach = _SPECTRUM // 2
        places = np.arange(_HOP * begin - reach, _HOP * (end - 1) + reach)
        frames = np.clip(places // _PITCH_SAMPLES, 0, len(self._f0) - 1)
        centres = (places + 0.5) / _PITCH_SAMPLES - 0.5
        cycles = np.interp(centres, np.arange(len(self._f0)), self._cycles)
        turns = (cycles[:, None] * np.arange(1, _HARMONICS + 1)) % 1
        sines = np.sin(2 * np.pi * turns.astype(np.float32)) * np.float32(_SINE)
        sines *= (self._f0[frames] > _VOICED_HZ)[:, None]
        weights = self._networks
        source = np.tanh(sines @ weights.source + weights.source_bias)
        spectra = np.fft.rfft(sliding_window_view(source, _SPECTRUM)[::_HOP] * weights.window)
        return np.concatenate([np.abs(spectra), np.angle(spectra)], axis=1).astype(np.float32)

    def _wave(self, spectra: Samples) -> Samples:
        """Add overlapping spectra, logarithms of magnitudes and sines of phases: [5 * (T + 3)]."""
        magnitudes, phases = np.exp(spectra[:, :_BINS]), np.sin(spectra[:, _BINS:])
        parts = [magnitudes * np.cos(phases), magnitudes * np.sin(phases)]
        pieces = np.concatenate(parts, axis=1) @ self._networks.basis * _SCALE
        wave = np.zeros((len(pieces) + _SPECTRUM // _HOP - 1, _HOP), np.float32)
        for place in range(_SPECTRUM // _HOP):
            wave[place : place + len(pieces)] += pieces[:, _HOP * place : _HOP * (place + 1)]
        return wave.ravel()


def load(mixture: Mixture, settings: SessionSettings) -> KokoroSynthesis:
    """Load the network, or share it with another engine of the process, and mix a voice."""
    packages = KokoroPackages(settings.kokoro)
    try:
        voices, symbols = packages.read_voices(), packages.read_symbols()
        networks = settings.sharing.get(
            f"kokoro {settings.threads}", partial(KokoroNetworks.load, packages, settings)
        )
    except KokoroMissingError as error:
        raise BundleError(str(error)) from error
    return KokoroSynthesis(networks, symbols, mixture.style(voices), mixture.tract)
