"""An RVC voice: what its networks do, and how one piece of speech goes through them."""

from dataclasses import dataclass
from typing import Protocol

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
class VoiceOptions:
    """How a voice is used; the defaults are those of the original tools' pages.

    Attributes:
        index_rate: share of the retrieved features, 0 to 1.
        protect: share of the retrieved features in unvoiced frames; see protect_unvoiced.
        loudness_mix: 1 keeps the voice's own loudness, 0 takes the recording's.
        unvoiced: what the synthesizer is told of unvoiced frames: 0 Hz, or a frequency between
            those of their neighbours. It must be as in the voice's training.
    """

    speaker: int = 0
    index_rate: float = 0.75
    search: Search = "exact"
    protect: float = 0.33
    loudness_mix: float = 0.25
    unvoiced: Unvoiced = "zero"


class FeatureEncoder(Protocol):
    """Turns speech into features of what is said."""

    def encode(self, wave: Array) -> Array:
        """Encode speech.

        Args:
            wave: mono audio at 16 kHz, float32 [N], at least 400 samples.

        Returns:
            Features every 20 ms, float32 [(N - 400) // 320 + 1, C].
        """


class Synthesizer(Protocol):
    """Turns features into audio in the character's voice."""

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz, a multiple of 100."""

    @property
    def harmonics(self) -> int:
        """How many harmonics its source has, with noise each; 0 if it is not told the pitch."""

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: "SynthesizerNoise"
    ) -> Array:
        """Speak T frames.

        Args:
            features: float32 [T, C].
            contour: T frames of pitch, or None if it takes none.
            noise: for T frames.

        Returns:
            float32 [T sample_rate / 100].
        """


@dataclass(frozen=True)
class SynthesizerNoise:
    """The noise of T frames.

    Attributes:
        prior: by which the synthesizer's latent strays from its mean, scaled, float32 [192, T].
        source: of the excitation's H harmonics, standard normal, float32 [T hop, H].
    """

    prior: Array
    source: Array


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
class RvcVoice:
    """The networks and vectors of one voice.

    Attributes:
        retrieval: features of the voice's training, or None.
    """

    encoder: FeatureEncoder
    synthesizer: Synthesizer
    retrieval: Retrieval | None
    options: VoiceOptions

    @property
    def hop(self) -> int:
        """Samples of the voice per frame of 10 ms."""
        return self.synthesizer.sample_rate // 100

    def speak(self, wave: Array, contour: Contour | None, random: Generator) -> Array:
        """Convert one piece of speech.

        Args:
            wave: mono audio at 16 kHz, float32 [N], at least 400 samples.
            contour: at least T frames of pitch, or None if the synthesizer takes none.

        Returns:
            float32 [T hop], with T = min(N // 160, 2 ((N - 400) // 320 + 1)).
        """
        frames = frame_count(len(wave))
        spoken = None if contour is None else contour.cut(0, frames)
        features = self._features(wave, spoken, frames)
        noise = draw_synthesizer_noise(random, frames, self.synthesizer)
        return self.synthesizer.speak(features, spoken, self.options.speaker, noise)

    def _features(self, wave: Array, contour: Contour | None, frames: int) -> Array:
        heard = self.encoder.encode(wave)
        if self.retrieval is None:
            return to_frames(heard, frames)
        options = self.options
        retrieved = self.retrieval.mix(heard, options.index_rate, options.search)
        features = to_frames(retrieved, frames)
        if contour is None:
            return features
        return protect_unvoiced(features, to_frames(heard, frames), contour.hertz, options.protect)


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
        """Compare a graph with the contract; see Contract."""
        (_WITH_PITCH if "pitchf" in graph.facts.inputs else _WITHOUT_PITCH).check(graph)


class OnnxSynthesizer:
    """A synthesizer's graph; see Synthesizer.

    Args:
        sample_rate: of its speech in Hz.
    """

    def __init__(self, graph: Graph, session: GraphSession, sample_rate: int) -> None:
        self._file = graph.file
        self._session = session
        self._harmonics = _count_harmonics(graph)
        self._sample_rate = sample_rate

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._sample_rate

    @property
    def harmonics(self) -> int:
        """How many harmonics its source has; 0 if it is not told the pitch."""
        return self._harmonics

    def speak(
        self, features: Array, contour: Contour | None, speaker: int, noise: SynthesizerNoise
    ) -> Array:
        """Speak T frames; see Synthesizer."""
        return self._session.run(self._inputs(features, contour, speaker, noise), "audio").ravel()

    def try_out(self, channels: int, speaker: int) -> None:
        """Speak two short silences of unvoiced frames.

        Raises:
            BundleError: the graph fails, or does not speak at the character's sample rate.
        """
        hop = self._sample_rate // _FRAMES_PER_SECOND
        for frames in _TRIAL_FRAMES:
            noise = SynthesizerNoise(
                np.zeros((PRIOR_CHANNELS, frames), np.float32),
                np.zeros((frames * hop, self._harmonics), np.float32),
            )
            silence = np.zeros((frames, channels), np.float32)
            unvoiced = contour(np.zeros(frames, np.float32))
            inputs = self._inputs(silence, unvoiced, speaker, noise)
            audio = self._session.try_out(inputs, "audio")
            if audio.shape != (1, 1, frames * hop):
                raise BundleError(
                    f"{self._file}: output 'audio': expected float32 [1, 1, {frames * hop}] for"
                    f" {frames} frames at {self._sample_rate} Hz, found {list(audio.shape)}."
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
        if self._harmonics and contour is not None:
            inputs["pitch"] = contour.coarse[None]
            inputs["pitchf"] = contour.hertz[None]
            inputs["noise"] = noise.source[None]
        return inputs


def _count_harmonics(graph: Graph) -> int:
    """Count the harmonics of a synthesizer's source: one, unless its input says otherwise."""
    if "noise" not in graph.facts.inputs:
        return 0
    shape = graph.facts.inputs["noise"].shape
    return shape[2] if shape is not None and isinstance(shape[2], int) else 1


class ContentContract:
    """The contract of the role `content`: a content encoder such as ContentVec.

    The graph takes audio at 16 kHz, float32 [1, N] or [1, 1, N], and gives features of 20 ms,
    float32 [1, (N - 400) // 320 + 1, C] or with the last two axes exchanged. The names are free.
    """

    def check(self, graph: Graph) -> None:
        """Compare a graph with the contract; see Contract."""
        inputs = list(graph.facts.inputs.values())
        if len(inputs) != 1 or inputs[0].element_type != "float32":
            found = ", ".join(f"{quoted(tensor.name)} {tensor}" for tensor in inputs) or "none"
            raise BundleError(
                f"{graph.file}: expected a content encoder with one input, float32 [1, samples] or"
                f" [1, 1, samples], found the inputs {found}."
            )
        shape = inputs[0].shape
        if shape is not None and len(shape) not in {2, 3}:
            raise BundleError(
                f"{graph.file}: input {quoted(inputs[0].name)}: expected float32 [1, samples] or"
                f" [1, 1, samples], found {inputs[0]}."
            )


class OnnxContentEncoder:
    """A content encoder's graph; see ContentEncoder.

    Which output says the features, along which axis, is read from a trial.

    Args:
        channels: how many values the synthesizer's features have, or None if it does not say.
        output: the name of the output, or None for the first that fits.

    Raises:
        BundleError: the graph fails, or has no such output.
    """

    def __init__(
        self, graph: Graph, session: GraphSession, channels: int | None, output: str | None
    ) -> None:
        self._session = session
        audio = next(iter(graph.facts.inputs.values()))
        self._input = audio.name
        self._rank = 2 if audio.shape is None else len(audio.shape)
        self._output = self._find_output(graph, channels, output)

    @property
    def channels(self) -> int:
        """How many values a feature has."""
        return self._output.channels

    def encode(self, wave: Array) -> Array:
        """Encode speech; see ContentEncoder."""
        features = self._session.run(self._batch(wave), self._output.name)[0]
        return np.ascontiguousarray(features.T) if self._output.is_transposed else features

    def _find_output(
        self, graph: Graph, channels: int | None, wanted: str | None
    ) -> "_FeatureOutput":
        names = list(graph.facts.outputs) if wanted is None else [wanted]
        if wanted is not None and wanted not in graph.facts.outputs:
            known = ", ".join(map(quoted, graph.facts.outputs))
            raise BundleError(
                f"{graph.file}: expected the output {quoted(wanted)} that settings.content_output"
                f" names, found only {known}."
            )
        found = []
        for name in names:
            silence = np.zeros(_TRIAL_SAMPLES, np.float32)
            features = self._session.try_out(self._batch(silence), name)
            output = _read_output(name, features.shape)
            if output is not None and channels in {None, output.channels}:
                return output
            found.append(f"{quoted(name)} {list(features.shape)}")
        frames = feature_count(_TRIAL_SAMPLES)
        wanted_channels = "channels" if channels is None else channels
        raise BundleError(
            f"{graph.file}: expected features float32 [1, {frames}, {wanted_channels}] for"
            f" {_TRIAL_SAMPLES} samples at 16 kHz, as the synthesizer takes them, found"
            f" {', '.join(found)}."
        )

    def _batch(self, wave: Array) -> dict[str, Array]:
        return {self._input: wave.reshape((1,) * (self._rank - 1) + (-1,))}


@dataclass(frozen=True)
class _FeatureOutput:
    """The output of a content encoder: its name, its channels, whether they come before time."""

    name: str
    channels: int
    is_transposed: bool


def _read_output(name: str, shape: tuple[int, ...]) -> _FeatureOutput | None:
    """Tell what an output of the trial is, or None if it holds no features."""
    frames = feature_count(_TRIAL_SAMPLES)
    if len(shape) != 3 or shape[0] != 1 or frames not in shape[1:]:  # noqa: PLR2004 - batch, T, C
        return None
    is_transposed = shape[1] != frames
    return _FeatureOutput(name, shape[1] if is_transposed else shape[2], is_transposed)


_RETRIEVAL_OUTPUTS = ("vectors", "centroids", "cells")


class RetrievalContract:
    """The contract of the role `retrieval`: the features of a voice's training.

    The graph takes nothing and gives `vectors`, float16 or float32 [M, C], `centroids`, float32
    [K, C], and `cells`, int32 or int64 [M]; see Retrieval.
    """

    def check(self, graph: Graph) -> None:
        """Compare a graph with the contract; see Contract."""
        vectors, cells = _kind(graph, "vectors", "float16"), _kind(graph, "cells", "int32")
        outputs = (
            TensorContract("vectors", [(None, None)], vectors or "float32"),
            TensorContract("centroids", [(None, None)]),
            TensorContract("cells", [(None,)], cells or "int64"),
        )
        GraphContract((), outputs).check(graph)


def _kind(graph: Graph, output: str, kind: str) -> str | None:
    """Return the element type if an output has it."""
    tensor = graph.facts.outputs.get(output)
    return kind if tensor is not None and tensor.element_type == kind else None


def read_retrieval(graph: Graph, session: GraphSession, channels: int) -> Retrieval:
    """Read the features of a voice's training out of their graph.

    Raises:
        BundleError: the graph fails, or its vectors do not fit each other or the features.
    """
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
