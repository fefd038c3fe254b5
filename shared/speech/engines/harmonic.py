"""The engine `harmonic`: a network that filters pulses and noise at the pitch it is given.

One graph, role `harmonic`. With T frames of 10 ms and R the character's sample rate, it takes

    wave     float32 [1, 160 T]            the recording at 16 kHz; frame t is centred at 160 t
    f0       float32 [1, T]                fundamental frequency to speak at, in Hz, above 0
    voicing  float32 [1, T]                1 where the recording is voiced, otherwise 0
    noise    float32 [1, (T + 1) R / 100]  standard normal

and returns `audio`, float32 [1, T R / 100]. Its pulses start with phase 0 one frame before the
first sample. Their phase is the sum of f0 / R over all samples, with f0 interpolated linearly
between frames.

A bundle whose `harmonic` graph takes `content`, float32 [1, T, size], in place of `wave` has a
graph of the role `content`, too, which characters share; see shared.speech.engines.content_encoder.

A bundle may have a further graph, role `harmonic_stream`, with which visitors hear the character
while they speak; see shared.speech.engines.harmonic_graph.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest, Pitch
from shared.speech.engines import content_encoder
from shared.speech.engines.content_encoder import ContentEncoder
from shared.speech.engines.harmonic_graph import (
    LOOKBACK,
    Noise,
    StreamContract,
    StreamingGraph,
    StreamingGraphLoader,
    StreamStep,
    draw_noise,
)
from shared.speech.engines.interface import ConversionOptions, Stream
from shared.speech.graphs.bundle import (
    CharacterBundle,
    Contract,
    GraphContract,
    TensorContract,
    refuse_options,
)
from shared.speech.graphs.sessions import GraphSession, SessionSettings, shared_session
from shared.speech.signal.analysis import Analysis, Chunk, cut_at_pauses
from shared.speech.signal.loudness import convert_recording, fade_out, join_pieces
from shared.speech.signal.pitch import HOP
from shared.speech.signal.pitch_shift import move_pitch, plan_pitch
from shared.speech.signal.samples import (
    FRAMES_PER_SECOND,
    check_audio,
    check_rate,
    converted_length,
    hold_edges,
)
from shared.speech.signal.sound import Samples, StageClock
from shared.speech.signal.streaming import History, RecentSpeech, StreamAnalysis, StreamFinish

_BLOCKS_PER_SECOND = 100
_MOST_BLOCKS = 10  # that are analysed at once


class HarmonicStream:
    """Converts speech while somebody speaks, in steps of a few frames, however it is cut."""

    def __init__(
        self,
        voice: StreamingGraph,
        *,
        sample_rate: int,
        spoken_rate: int,
        pitch: Pitch,
        semitones: float | None,
        noise: Noise,
    ) -> None:
        self._voice = voice
        # Frames that must have come in after those that are spoken.
        self._ahead = voice.lookahead + 1
        self._rates = sample_rate, spoken_rate
        self._hop = spoken_rate // 100
        self._pitch = pitch
        self._semitones = semitones
        self._noise = noise
        self._analysis = StreamAnalysis(sample_rate)
        self._finish = StreamFinish(spoken_rate)
        self._block = sample_rate // _BLOCKS_PER_SECOND
        self._f0 = History(LOOKBACK + 1)
        self._voicing = History(LOOKBACK + 1)
        self._taken = 0
        self._given = 0
        self._spoken = 0

    @property
    def wanted(self) -> int:
        frames = self._spoken + self._voice.frames + self._ahead
        return max(frames * self._block + self._analysis.delay - self._taken, 1)

    def push(self, samples: Samples) -> Samples:
        check_audio(samples)
        self._taken += len(samples)
        heard = []
        part = _MOST_BLOCKS * self._block
        for begin in range(0, len(samples), part):
            self._analysis.push(samples[begin : begin + part])
            heard += self._steps()
        self._given += sum(map(len, heard))
        return np.concatenate([np.zeros(0, np.float32), *heard])

    def finish(self) -> Samples:
        missing = converted_length(self._taken, *self._rates) - self._given
        self._analysis.end()
        heard = self._steps()
        while sum(map(len, heard)) < missing:
            self._analysis.push_silence(self._voice.frames)
            heard += self._steps()
        return fade_out(np.concatenate([np.zeros(0, np.float32), *heard])[:missing], self._rates[1])

    def _steps(self) -> list[Samples]:
        steps = []
        while self._analysis.frames >= self._spoken + self._voice.frames + self._ahead:
            first, end = self._spoken - 1, self._spoken + self._voice.frames
            heard = self._analysis.hear(end + self._ahead)
            step = StreamStep(end, self._analysis.wave, *self._plan(heard, end), self._noise)
            voice = self._voice.speak(step)
            self._spoken = end
            if first < 0:
                voice, first = voice[self._hop :], 0
            steps.append(self._finish.push(voice, first, heard))
        return steps

    def _plan(self, heard: RecentSpeech, end: int) -> tuple[Samples, Samples]:
        """Plan the pitch; earlier decisions stay, and the last known value is held."""
        contour = move_pitch(heard.track, heard.pitch, self._pitch, self._semitones)
        if self._f0.count == 0:
            self._f0.append(np.full(LOOKBACK, contour[0], np.float32))
            self._voicing.append(np.zeros(LOOKBACK, np.float32))
        decided = self._f0.count - LOOKBACK
        now, ahead = slice(decided - heard.begin, end + 1 - heard.begin), end + 1 - heard.begin
        self._f0.append(contour[now])
        self._voicing.append(heard.track.voicing[now])
        unknown = self._voice.lookahead - 1 - len(contour[ahead:])
        later = (hold_edges(each[ahead:], 0, unknown) for each in (contour, heard.track.voicing))
        return (
            np.concatenate([self._f0.last(LOOKBACK + 1), next(later)]),
            np.concatenate([self._voicing.last(LOOKBACK + 1), next(later)]),
        )


_FREE = 4  # frames before the cut that are not bent: the crossfade makes them audible


def join_phases(chunks: Sequence[Chunk], f0: Samples) -> list[Samples]:
    """Give each piece a contour with which its phase at the cut equals that of the piece before.

    Every piece starts with phase 0. In its lead-in, which is not audible, the frequency is changed
    by a few hertz. Takes the contour of the whole recording in Hz, float32 [T]; returns the contour
    of each piece from its `first` to its `last` frame.
    """
    contours = [f0[chunk.first : chunk.last] for chunk in chunks]
    for place, (before, chunk) in enumerate(pairwise(chunks), start=1):
        wanted = cycles(contours[place - 1], chunk.begin - before.first)
        contours[place] = arrive(contours[place], chunk.begin - chunk.first, wanted)
    return contours


def arrive(contour: Samples, lead_in: int, wanted: float) -> Samples:
    """Change a contour before frame `lead_in`, so that its phase there has the wanted cycles."""
    bent = contour.astype(np.float64)
    bump = np.zeros(len(bent))
    bump[1 : lead_in - _FREE] = np.hanning(lead_in - _FREE + 1)[1:-1]
    missing = wanted - cycles(contour, lead_in)
    missing -= round(missing)
    bent += bump * (missing / cycles(bump, lead_in))
    return bent.astype(np.float32)


def cycles(contour: NDArray[np.floating], frame: int) -> float:
    """Count the cycles of a contour up to a frame; pulses start one frame before the first."""
    passed = contour[: frame + 1].astype(np.float64)
    straight = passed.sum() - (passed[0] + passed[-1]) / 2
    return float(passed[0] + straight) / FRAMES_PER_SECOND


ROLE = "harmonic"
STREAM_ROLE = "harmonic_stream"
_WAVE = TensorContract("wave", [(1, "160*frames")])
_CONTENT = TensorContract("content", [(1, "frames", None)])


_TRIAL_FRAMES = 9


def contracts(manifest: CharacterManifest) -> dict[str, Contract]:
    refuse_options(manifest)
    pitch_of(manifest)
    hop, has_encoder = hop_of(manifest), content_encoder.ROLE in manifest.graphs
    contract = GraphContract(
        inputs=(
            _CONTENT if has_encoder else _WAVE,
            TensorContract("f0", [(1, "frames")]),
            TensorContract("voicing", [(1, "frames")]),
            TensorContract("noise", [(1, "samples")]),
        ),
        outputs=(TensorContract("audio", [(1, "samples")]),),
    )
    needed: dict[str, Contract] = {ROLE: contract}
    if has_encoder:
        needed = {content_encoder.ROLE: content_encoder.CONTRACT, ROLE: contract}
    if STREAM_ROLE in manifest.graphs:
        needed |= {STREAM_ROLE: StreamContract(hop)}
        if content_encoder.STREAM_ROLE in manifest.graphs:
            needed |= {content_encoder.STREAM_ROLE: content_encoder.CONTRACT}
    return needed


def build(character: CharacterBundle, settings: SessionSettings) -> "HarmonicEngine":
    graphs, hop = character.graphs, hop_of(character.manifest)
    graph = graphs[ROLE]
    # Measured: optimising these graphs takes half of their loading time and makes none faster.
    session = GraphSession(graph, settings, is_optimised=True)
    encoder, size = None, 0
    if content_encoder.ROLE in graphs:
        encoder = ContentEncoder(shared_session(graphs[content_encoder.ROLE], settings))
        size = encoder.try_out(graphs[content_encoder.ROLE].file)
    open_stream_graph = None
    if STREAM_ROLE in graphs:
        student = graphs.get(content_encoder.STREAM_ROLE)
        holders = (graph,) if student is None else (graph, student)
        open_stream_graph = StreamingGraphLoader(graphs[STREAM_ROLE], holders, hop, settings)
    engine = HarmonicEngine(character.manifest, session, encoder, open_stream_graph)
    engine.try_out(graph.file, size)
    return engine


class HarmonicEngine:
    def __init__(
        self,
        manifest: CharacterManifest,
        session: GraphSession,
        encoder: ContentEncoder | None = None,
        open_stream_graph: Callable[[], StreamingGraph] | None = None,
    ) -> None:
        self.sample_rate = manifest.sample_rate
        self._manifest = manifest
        self._session = session
        self._encoder = encoder
        self._pitch = pitch_of(manifest)
        self._hop = hop_of(manifest)
        self._open_voice = open_stream_graph

    @cached_property
    def _noise(self) -> Samples:
        """Drawn at the first conversion; in the container this is the rehearsal."""
        return draw_noise(self.sample_rate)

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        def speak(analysis: Analysis, clock: StageClock) -> Samples:
            with clock.stage("network"):
                return self._speak(analysis, options)

        return convert_recording(samples, sample_rate, self._manifest, speak, stopwatch)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        check_rate(sample_rate)
        if self._open_voice is None:
            return None
        return HarmonicStream(
            self._open_voice(),
            sample_rate=sample_rate,
            spoken_rate=self.sample_rate,
            pitch=self._pitch,
            semitones=options.pitch_shift,
            noise=Noise(self._noise, options.seed),
        )

    def try_out(self, file: str, content_size: int = 0) -> None:
        frames = _TRIAL_FRAMES
        wave = {"wave": np.zeros((1, frames * HOP), np.float32)}
        heard = {"content": np.zeros((1, frames, content_size), np.float32)}
        inputs = (heard if content_size else wave) | {
            "f0": np.full((1, frames), self._pitch.median_hz, np.float32),
            "voicing": np.ones((1, frames), np.float32),
            "noise": np.zeros((1, (frames + 1) * self._hop), np.float32),
        }
        audio = self._session.try_out(inputs, "audio")
        if audio.shape != (1, frames * self._hop):
            raise BundleError(
                f"{file}: output 'audio': expected float32 [1, {frames * self._hop}] for"
                f" {frames} frames, found {list(audio.shape)}."
            )

    def _speak(self, analysis: Analysis, options: ConversionOptions) -> Samples:
        pitch = plan_pitch(analysis.track, self._pitch, options.pitch_shift)
        noise = Noise(self._noise, options.seed).read(0, (len(pitch) + 1) * self._hop)
        chunks = cut_at_pauses(analysis.levels.frames)
        contours = join_phases(chunks, pitch)
        heard: Sequence[Samples | None]
        if self._encoder is None:
            name = "wave"
            heard = [analysis.wave[chunk.first * HOP : chunk.last * HOP] for chunk in chunks]
        else:
            name, heard = "content", self._encoder.hear(analysis, chunks)
        pieces = []
        for chunk, sound, contour in zip(chunks, heard, contours, strict=True):
            if sound is None or not analysis.has_speech(chunk):
                pieces.append(np.zeros((chunk.last - chunk.first) * self._hop, np.float32))
                continue
            inputs = {
                name: sound,
                "f0": contour,
                "voicing": analysis.track.voicing[chunk.first : chunk.last],
                "noise": noise[chunk.first * self._hop : (chunk.last + 1) * self._hop],
            }
            batch = {each: value[None] for each, value in inputs.items()}
            pieces.append(self._session.run(batch, "audio").ravel())
        return join_pieces(analysis, chunks, pieces, self._hop)


def pitch_of(manifest: CharacterManifest) -> Pitch:
    if manifest.pitch is None:
        raise BundleError(
            f"{MANIFEST}: field 'pitch': expected an object for the engine harmonic, found null."
        )
    return manifest.pitch


def hop_of(manifest: CharacterManifest) -> int:
    if manifest.sample_rate % FRAMES_PER_SECOND:
        raise BundleError(
            f"{MANIFEST}: field 'sample_rate': expected a multiple of {FRAMES_PER_SECOND},"
            f" found {manifest.sample_rate}."
        )
    return manifest.sample_rate // FRAMES_PER_SECOND
