"""The networks of an RVC voice, and how one piece of speech goes through them."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.runtime.quoting import quoted
from shared.speech.engines.rvc_signal import (
    Contour,
    Retrieval,
    Search,
    Unvoiced,
    contour,
    feature_count,
    frame_count,
    protect_unvoiced,
    to_frames,
)
from shared.speech.graphs.bundle import Graph, GraphContract, TensorContract
from shared.speech.graphs.sessions import GraphSession, first_line

Array = NDArray[np.float32]

PRIOR_CHANNELS = 192
_PRIOR_SCALE = np.float32(0.66666)


@dataclass(frozen=True)
class RvcOptions:
    """Settings of an RVC voice; the defaults are those of the original tools' pages.

    index_rate is the share of the retrieved features, 0 to 1, and `protect` that in unvoiced
    frames; see protect_unvoiced. loudness_mix 1 keeps the synthesizer's loudness, 0 takes the
    recording's. `unvoiced` frames are given to the synthesizer as 0 Hz, or filled with a frequency
    between those of their neighbours, as in the training.
    """

    speaker: int = 0
    index_rate: float = 0.75
    search: Search = "exact"
    protect: float = 0.33
    loudness_mix: float = 0.25
    unvoiced: Unvoiced = "zero"


class SynthesizerNoise(NamedTuple):
    """The noise of T frames.

    `prior` moves the synthesizer's latent from its mean, scaled, float32 [192, T]; `source` is that
    of the excitation's H harmonics, standard normal, float32 [T hop, H].
    """

    prior: Array
    source: Array


class FeatureEncoder(Protocol):
    def encode(self, wave: Array) -> Array:
        """Encode N >= 400 samples at 16 kHz: float32 [(N - 400) // 320 + 1, C], every 20 ms."""


class Synthesizer(Protocol):
    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz, a multiple of 100."""

    @property
    def harmonics(self) -> int:
        """The harmonics of its source, with noise each; 0 if it takes no pitch."""

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> Array:
        """Speak T frames of features [T, C]: float32 [T sample_rate / 100]."""


def draw_synthesizer_noise(
    random: Generator, frames: int, synthesizer: Synthesizer
) -> SynthesizerNoise:
    """Draw the noise of T frames: first the prior's, then the source's."""
    samples = frames * synthesizer.sample_rate // 100
    prior = random.standard_normal((PRIOR_CHANNELS, frames), np.float32) * _PRIOR_SCALE
    return SynthesizerNoise(
        prior, random.standard_normal((samples, synthesizer.harmonics), np.float32)
    )


@dataclass(frozen=True)
class RvcNetworks:
    encoder: FeatureEncoder
    synthesizer: Synthesizer
    retrieval: Retrieval | None
    options: RvcOptions

    @property
    def hop(self) -> int:
        return self.synthesizer.sample_rate // 100

    def speak(self, wave: Array, contour: Contour | None, random: Generator) -> Array:
        """Convert N >= 400 samples at 16 kHz, float32 [N].

        Returns float32 [T hop], with T = min(N // 160, 2 ((N - 400) // 320 + 1)).
        """
        frames = frame_count(len(wave))
        spoken = None if contour is None else contour.cut(0, frames)
        heard = self.encoder.encode(wave)
        features = to_frames(heard, frames)
        options = self.options
        if self.retrieval is not None:
            mixed = self.retrieval.mix(heard, options.index_rate, options.search)
            retrieved = to_frames(mixed, frames)
            features = (
                retrieved
                if spoken is None
                else protect_unvoiced(retrieved, features, spoken.hertz, options.protect)
            )
        noise = draw_synthesizer_noise(random, frames, self.synthesizer)
        return self.synthesizer.speak(features, spoken, options.speaker, noise)


_FRAMES_PER_SECOND = 100
_TRIAL_FRAMES = (12, 20)
_TRIAL_SAMPLES = 8_000

_WITHOUT_PITCH = GraphContract(
    inputs=(
        TensorContract("phone", [(1, "frames", None)]),
        TensorContract("phone_lengths", [(1,)], "int64"),
        TensorContract("ds", [(1,)], "int64"),
        TensorContract("rnd", [(1, PRIOR_CHANNELS, "frames")]),
    ),
    outputs=(TensorContract("audio", [(1, 1, "samples")]),),
)
_WITH_PITCH = GraphContract(
    inputs=(
        *_WITHOUT_PITCH.inputs,
        TensorContract("pitch", [(1, "frames")], "int64"),
        TensorContract("pitchf", [(1, "frames")]),
        TensorContract("noise", [(1, "samples", None)]),
    ),
    outputs=_WITHOUT_PITCH.outputs,
)


class SynthesizerContract:
    """The contract of the role `synthesizer`; it need not take the pitch.

    With T frames, C channels and R the character's sample rate, the graph takes

        phone          float32 [1, T, C]           content features
        phone_lengths  int64 [1]                   T
        pitch          int64 [1, T]                coarse pitch, 1 to 255
        pitchf         float32 [1, T]              fundamental frequency in Hz, 0 if unvoiced
        ds             int64 [1]                   speaker
        rnd            float32 [1, 192, T]         0.66666 times standard normal
        noise          float32 [1, T R / 100, H]   standard normal, for the H harmonics of a source

    and gives `audio`, float32 [1, 1, T R / 100]. Without pitch, `pitch`, `pitchf` and `noise` are
    left out.
    """

    def check(self, graph: Graph) -> None:
        (_WITH_PITCH if "pitchf" in graph.facts.inputs else _WITHOUT_PITCH).check(graph)


class OnnxSynthesizer:
    def __init__(self, graph: Graph, session: GraphSession, sample_rate: int) -> None:
        self._file = graph.file
        self._session = session
        self.sample_rate = sample_rate
        self.harmonics = 0
        if "noise" in graph.facts.inputs:
            shape = graph.facts.inputs["noise"].shape
            self.harmonics = shape[2] if shape is not None and isinstance(shape[2], int) else 1

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> Array:
        return self._session.run(self._inputs(features, contour, speaker, noise), "audio").ravel()

    def try_out(self, channels: int, speaker: int) -> None:
        hop = self.sample_rate // _FRAMES_PER_SECOND
        for frames in _TRIAL_FRAMES:
            noise = SynthesizerNoise(
                np.zeros((PRIOR_CHANNELS, frames), np.float32),
                np.zeros((frames * hop, self.harmonics), np.float32),
            )
            silence = np.zeros((frames, channels), np.float32)
            unvoiced = contour(np.zeros(frames, np.float32))
            inputs = self._inputs(silence, unvoiced, speaker, noise)
            audio = self._session.try_out(inputs, "audio")
            if audio.shape != (1, 1, frames * hop):
                raise BundleError(
                    f"{self._file}: output 'audio': expected float32 [1, 1, {frames * hop}] for"
                    f" {frames} frames at {self.sample_rate} Hz, found {list(audio.shape)}."
                )

    def _inputs(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> dict[str, NDArray[np.generic]]:
        inputs: dict[str, NDArray[np.generic]] = {
            "phone": features[None],
            "phone_lengths": np.array([len(features)], np.int64),
            "ds": np.array([speaker], np.int64),
            "rnd": noise.prior[None],
        }
        if self.harmonics and contour is not None:
            inputs["pitch"] = contour.coarse[None]
            inputs["pitchf"] = contour.hertz[None]
            inputs["noise"] = noise.source[None]
        return inputs


class ContentContract:
    """The contract of the role `content`: a content encoder such as ContentVec.

    The graph takes audio at 16 kHz, float32 [1, N] or [1, 1, N], and gives features of 20 ms,
    float32 [1, (N - 400) // 320 + 1, C] or with the last two axes exchanged. The names are free.
    """

    def check(self, graph: Graph) -> None:
        inputs = list(graph.facts.inputs.values())
        if len(inputs) != 1 or inputs[0].element_type != "float32":
            found = ", ".join(f"{quoted(tensor.name)} {tensor}" for tensor in inputs) or "none"
            raise BundleError(
                f"{graph.file}: expected a content encoder with one input, float32 [1, samples] or"
                f" [1, 1, samples], found the inputs {found}."
            )
        shapes = ((1, "samples"), (1, 1, "samples"))
        GraphContract((TensorContract(inputs[0].name, shapes),), ()).check(graph)


class OnnxContentEncoder:
    """A content encoder's graph.

    A trial finds the output that holds features of so many channels (None for any), and their axis.
    """

    def __init__(
        self, graph: Graph, session: GraphSession, channels: int | None, output: str | None
    ) -> None:
        self._session = session
        audio = next(iter(graph.facts.inputs.values()))
        self._input = audio.name
        self._rank = 2 if audio.shape is None else len(audio.shape)
        if output is not None and output not in graph.facts.outputs:
            known = ", ".join(map(quoted, graph.facts.outputs))
            raise BundleError(
                f"{graph.file}: expected the output {quoted(output)} that settings.content_output"
                f" names, found only {known}."
            )
        found = []
        silence = self._batch(np.zeros(_TRIAL_SAMPLES, np.float32))
        frames = feature_count(_TRIAL_SAMPLES)
        for name in graph.facts.outputs if output is None else [output]:
            shape = session.try_out(silence, name).shape
            found.append(f"{quoted(name)} {list(shape)}")
            if len(shape) != 3 or shape[0] != 1 or frames not in shape[1:]:  # noqa: PLR2004
                continue
            self._output, self._is_transposed = name, shape[1] != frames
            self.channels = shape[1] if self._is_transposed else shape[2]
            if channels in {None, self.channels}:
                return
        wanted = "channels" if channels is None else channels
        raise BundleError(
            f"{graph.file}: expected features float32 [1, {frames}, {wanted}] for"
            f" {_TRIAL_SAMPLES} samples at 16 kHz, as the synthesizer takes them, found"
            f" {', '.join(found)}."
        )

    def encode(self, wave: Array) -> Array:
        features = self._session.run(self._batch(wave), self._output)[0]
        return np.ascontiguousarray(features.T) if self._is_transposed else features

    def _batch(self, wave: Array) -> dict[str, Array]:
        return {self._input: wave.reshape((1,) * (self._rank - 1) + (-1,))}


_RETRIEVAL_OUTPUTS = ("vectors", "centroids", "cells")


class RetrievalContract:
    """The contract of the role `retrieval`: the features of a voice's training.

    The graph takes nothing and gives `vectors`, float16 or float32 [M, C], `centroids`, float32
    [K, C], and `cells`, int32 or int64 [M]; see Retrieval.
    """

    def check(self, graph: Graph) -> None:
        kinds = {name: tensor.element_type for name, tensor in graph.facts.outputs.items()}
        vectors = "float16" if kinds.get("vectors") == "float16" else "float32"
        cells = "int32" if kinds.get("cells") == "int32" else "int64"
        outputs = (
            TensorContract("vectors", [(None, None)], vectors),
            TensorContract("centroids", [(None, None)]),
            TensorContract("cells", [(None,)], cells),
        )
        GraphContract((), outputs).check(graph)


def read_retrieval(graph: Graph, session: GraphSession, channels: int) -> Retrieval:
    try:
        vectors, centroids, cells = session.run_all({}, _RETRIEVAL_OUTPUTS)
        retrieval = Retrieval(vectors, centroids, cells)
    except Exception as error:  # those of ONNX Runtime share no narrower base
        raise BundleError(
            f"{graph.file}: expected vectors for the retrieval, found: {first_line(error)}."
        ) from error
    if retrieval.width != channels:
        raise BundleError(
            f"{graph.file}: output 'vectors': expected {channels} values each, as the content"
            f" encoder gives, found {retrieval.width}."
        )
    return retrieval
