"""The harmonic graph of streams, which keeps its state and speaks a few frames at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
from numpy.random import default_rng  # imported here, because numpy loads it lazily

from shared.characters.bundle_files import BundleError
from shared.runtime.quoting import quoted
from shared.speech.graphs.bundle import Graph, GraphContract, TensorContract
from shared.speech.graphs.onnx_files import Tensor, with_weights_of
from shared.speech.graphs.sessions import GraphSession, Provider, SessionSettings
from shared.speech.signal.pitch import HOP
from shared.speech.signal.sound import Samples

_SEED = 0
_SECONDS = 8  # longer than most recordings; a listener does not notice the repetition


def draw_noise(sample_rate: int) -> Samples:
    """Draw the standard normal noise that all conversions at a sample rate read from."""
    return default_rng(_SEED).standard_normal(_SECONDS * sample_rate, np.float32)


class Noise:
    def __init__(self, stored: Samples, seed: int) -> None:
        self._stored = stored
        self._begin = int(default_rng(seed).integers(len(stored)))

    def read(self, begin: int, count: int) -> Samples:
        """Return `count` values from number `begin` on, which may be below 0."""
        first = (self._begin + begin) % len(self._stored)
        laps = (first + count) // len(self._stored)
        return np.concatenate([self._stored[first:], *[self._stored] * laps])[:count]


LOOKBACK = 88  # frames up to the end of those that are spoken that a step says something about


@dataclass(frozen=True)
class StreamStep:
    """Input of the next frames of a stream, up to frame `end` of the recording.

    `wave` returns the recording at 16 kHz between two samples, silence before it began. `f0` in Hz
    and `voicing` are [LOOKBACK + lookahead]; all but the last lookahead - 1 are final.
    """

    end: int
    wave: Callable[[int, int], Samples]
    f0: Samples
    voicing: Samples
    noise: Noise


F0_BEFORE = 2
HOPS_MORE = 3
WAVE_BEFORE = 240
WAVE_AFTER = 80
LONGEST_STEP = 50  # frames at a time: half a second
LOOKAHEADS = range(2, 31)  # frames

_INPUTS = frozenset({"wave", "f0", "voicing", "noise"})
_TRIAL_HERTZ = 200
_STATES = 64
_STATE_VALUES = 1_000_000


class StreamContract:
    def __init__(self, hop: int) -> None:
        self._hop = hop

    def check(self, graph: Graph) -> None:
        frames = spoken_frames(graph, self._hop)
        ahead = frames + lookahead_of(graph, frames)
        states = state_shapes(graph)
        if len(states) > _STATES or sum(map(np.prod, states.values())) > _STATE_VALUES:
            raise BundleError(
                f"{graph.file}: expected at most {_STATES} states with {_STATE_VALUES} values"
                " together, found more."
            )
        GraphContract(
            inputs=(
                TensorContract("wave", [(1, HOP * (ahead + 2))]),
                TensorContract("f0", [(1, ahead + F0_BEFORE)]),
                TensorContract("voicing", [(1, ahead)]),
                TensorContract("noise", [(1, (frames + HOPS_MORE) * self._hop)]),
                *(TensorContract(name, [shape]) for name, shape in states.items()),
            ),
            outputs=(
                TensorContract("audio", [(1, frames * self._hop)]),
                *(TensorContract(f"next_{name}", [shape]) for name, shape in states.items()),
            ),
        ).check(graph)


def last_size(tensor: Tensor | None) -> int | str | None:
    """Return a fixed size, the name of one that varies, or None if nothing is known of it."""
    return tensor.shape[-1] if tensor is not None and tensor.shape else None


def spoken_frames(graph: Graph, hop: int) -> int:
    audio = graph.facts.outputs.get("audio")
    size = last_size(audio)
    if not isinstance(size, int) or size % hop or not 0 < size // hop <= LONGEST_STEP:
        raise BundleError(
            f"{graph.file}: output 'audio': expected a fixed number of samples, a multiple of"
            f" {hop} up to {LONGEST_STEP * hop}, found {audio or 'no such output'}."
        )
    return size // hop


def lookahead_of(graph: Graph, spoken: int) -> int:
    """Count the frames after those that are spoken that a graph listens to.

    A network's receptive field reaches 28 of them; without the last 16, spectra differ by 0.4 dB
    from those with all.
    """
    voicing = graph.facts.inputs.get("voicing")
    size = last_size(voicing)
    if not isinstance(size, int) or size - spoken not in LOOKAHEADS:
        raise BundleError(
            f"{graph.file}: input 'voicing': expected {spoken} frames and {LOOKAHEADS[0]} to"
            f" {LOOKAHEADS[-1]} that follow, found {voicing or 'no such input'}."
        )
    return size - spoken


def state_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for name, tensor in graph.facts.inputs.items():
        if name in _INPUTS:
            continue
        fixed = tuple(size for size in tensor.shape or () if isinstance(size, int))
        if tensor.shape is None or len(fixed) != len(tensor.shape):
            raise BundleError(
                f"{graph.file}: input {quoted(name)}: expected a state of fixed shape,"
                f" found {tensor}."
            )
        shapes[name] = fixed
    return shapes


class StreamingGraphLoader:
    """Opens streams; loads the graph, with the weights in `holders`, for the first of them only."""

    def __init__(
        self, graph: Graph, holders: Sequence[Graph], hop: int, settings: SessionSettings
    ) -> None:
        self._graph = graph
        self._holders = holders
        self._hop = hop
        # A few frames at a time are too little work for any other processor.
        self._settings = replace(settings, provider=Provider.CPU)
        self._session: GraphSession | None = None
        self._lock = Lock()

    def __call__(self) -> "StreamingGraph":
        with self._lock:
            if self._session is None:
                self._session = self._load()
        return StreamingGraph(self._session, self._graph, self._hop)

    def _load(self) -> GraphSession:
        graph, content = self._graph, self._graph.content
        for holder in self._holders:
            content = with_weights_of(content, holder.content)
        # Optimised when it is loaded, unlike the whole graph: it runs every few frames, and
        # widening its weights each time would take longer than using them.
        session = GraphSession(Graph(graph.file, content, graph.facts), self._settings)
        silence = {
            name: np.zeros([size for size in tensor.shape or () if isinstance(size, int)], "f4")
            for name, tensor in graph.facts.inputs.items()
        }
        silence["f0"] += _TRIAL_HERTZ
        session.try_out(silence, "audio")
        self._holders = ()  # lets go of the files' bytes
        return session


class StreamingGraph:
    def __init__(self, session: GraphSession, graph: Graph, hop: int) -> None:
        self._session = session
        self._hop = hop
        self.frames = spoken_frames(graph, hop)
        self.lookahead = lookahead_of(graph, self.frames)
        self._state = {
            name: np.zeros(shape, np.float32) for name, shape in state_shapes(graph).items()
        }
        self._outputs = ["audio", *(f"next_{name}" for name in self._state)]

    def speak(self, step: StreamStep) -> Samples:
        """Speak the next frames: float32 [frames hop], which end a frame before `step.end`."""
        hops = self.frames + HOPS_MORE
        begin = step.end - self.frames
        first = LOOKBACK - self.frames
        inputs = {
            "wave": step.wave(
                HOP * begin - WAVE_BEFORE, HOP * (step.end + self.lookahead) + WAVE_AFTER
            ),
            "f0": step.f0[first - F0_BEFORE :],
            "voicing": step.voicing[first:],
            "noise": step.noise.read((begin - 1) * self._hop, hops * self._hop),
        }
        batch = {name: value[None] for name, value in inputs.items()}
        audio, *state = self._session.run_all({**batch, **self._state}, self._outputs)
        self._state = dict(zip(self._state, state, strict=True))
        return audio.ravel()
