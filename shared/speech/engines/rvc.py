"""The engine `rvc`: voices of Retrieval-based Voice Conversion.

A bundle has up to four graphs, by role: `content` encodes what is said (ContentContract),
`synthesizer` speaks the features in the character's timbre (SynthesizerContract). `pitch` follows
the fundamental frequency in place of our own tracker (PitchModelContract) and `retrieval` holds
features of the training (RetrievalContract); both may be left out. The manifest's settings are
those of RvcOptions and `content_output`.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import default_rng  # at once: numpy imports it only when it is asked for
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.runtime.quoting import quoted
from shared.speech.engines.harmonic import hop_of
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.rvc_networks import (
    ContentContract,
    OnnxContentEncoder,
    OnnxSynthesizer,
    RetrievalContract,
    RvcNetworks,
    RvcOptions,
    SynthesizerContract,
    read_retrieval,
)
from shared.speech.engines.rvc_pitch import OnnxPitchModel, PitchModelContract
from shared.speech.engines.rvc_signal import (
    Contour,
    contour,
    divide_peak,
    fill_unvoiced,
    high_pass,
    loudness_gains,
    shift,
)
from shared.speech.graphs.bundle import CharacterBundle, Contract
from shared.speech.graphs.sessions import GraphSession, SessionSettings, shared_session
from shared.speech.signal.analysis import Analysis, Chunk, analyse, cut_at_pauses, join
from shared.speech.signal.loudness import convert_recording
from shared.speech.signal.pitch import HOP, SAMPLE_RATE, F0Track, track
from shared.speech.signal.pitch_shift import plan_pitch
from shared.speech.signal.samples import check_audio, fit_length
from shared.speech.signal.sound import NoClock, Samples, StageClock
from shared.voices.voice import ErrorCode, VoiceError

_SHARES = {"index_rate": 1.0, "protect": 0.5, "loudness_mix": 1.0}
_WORDS: Mapping[str, tuple[str, ...]] = {"search": ("exact", "cell"), "unvoiced": ("zero", "fill")}
_MOST_SPEAKERS = 10_000
_LONGEST_NAME = 200
_KNOWN = (*(option.name for option in fields(RvcOptions)), "content_output")


def read_settings(manifest: CharacterManifest) -> tuple[RvcOptions, str | None]:
    settings = dict(manifest.settings)
    for name, value in settings.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        found: object = value
        if name not in _KNOWN:
            expected, is_right, found = f"only {', '.join(_KNOWN)}", False, name
        elif name in _SHARES:
            expected = f"a number from 0 to {_SHARES[name]:g}"
            is_right = is_number and 0 <= float(value) <= _SHARES[name]
        elif name in _WORDS:
            expected = " or ".join(f'"{word}"' for word in _WORDS[name])
            is_right = value in _WORDS[name]
        elif name == "speaker":
            expected = f"a whole number from 0 to {_MOST_SPEAKERS - 1}"
            is_right = is_number and isinstance(value, int) and 0 <= value < _MOST_SPEAKERS
        else:
            expected = "the name of an output"
            is_right = isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME
        if not is_right:
            raise BundleError(
                f"{MANIFEST}: field {quoted(f'settings.{name}')}: expected {expected}, found"
                f" {quoted(found)}."
            )
    output = settings.pop("content_output", None)
    return RvcOptions(**settings), None if output is None else str(output)  # type: ignore[arg-type] # checked


PADDING = 30  # frames: 0.3 s that the networks hear before and after a piece
LONGEST = 1_000  # frames: a synthesizer takes about 100 MB of memory for a second
_PAUSE = 40  # frames: a longer pause parts phrases
_GRID = 10  # frames, of which phrases begin and end at a multiple
_UNSURE = 12  # frames at the end of what has come, in which speech may have begun


def plan_phrases(
    speech: NDArray[np.bool_], levels: Samples, longest: int = LONGEST
) -> list[list[Chunk]]:
    """Plan the pieces of a recording, phrase by phrase; pauses between phrases are left out.

    Converting the padding of two pieces costs a little more than the shortest of these pauses, but
    the phrase before a pause can be converted while the next one is spoken. Long phrases are cut at
    the quietest places. Returns frames of the recording padded by PADDING frames at the beginning;
    all pieces have that many frames of context on both sides.
    """
    frames = np.flatnonzero(speech)
    if len(frames) == 0:
        return []
    pauses = np.flatnonzero(np.diff(frames) > _PAUSE)
    begins = frames[np.concatenate([[0], pauses + 1])]
    ends = frames[np.concatenate([pauses, [len(frames) - 1]])] + 1
    # The beginning depends on the levels of the whole recording: the grid keeps later speech from
    # moving a phrase that is over.
    begins, ends = begins // _GRID * _GRID, np.minimum(-(-ends // _GRID) * _GRID, len(speech))
    return [
        [
            Chunk(
                begin + part.begin + PADDING, begin + part.end + PADDING,
                begin + part.begin, begin + part.end + 2 * PADDING,
            )
            for part in cut_at_pauses(levels[begin:end], longest)
        ]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]  # fmt: skip


def is_complete(phrase: Sequence[Chunk], frames: int) -> bool:
    """Return whether later speech belongs to another phrase than this one of `plan_phrases`."""
    return phrase[-1].end - PADDING + _PAUSE + _UNSURE <= frames


# With so many samples more than its frames, a content encoder gives a feature for every two frames,
# also for the last of an odd number.
_TAIL = 240
_PITCH_TAIL = 2  # frames of pitch that the longest wave needs more than its piece has
_FINEST = float(1 << 20)  # steps of a sample of full scale


class PitchTracker(Protocol):
    @property
    def hears_voicing(self) -> bool:
        """Return whether it tells voiced frames from unvoiced ones."""

    def track(self, wave: Samples) -> Samples:
        """Follow the pitch of [N] at 16 kHz: Hz, 0 where unvoiced, float32 [N // 160 + 1]."""


class _Source(NamedTuple):
    """Inputs of the pieces of a recording.

    `heard` is without frequencies below 48 Hz, float64 [160 T]; `padded` the same with PADDING
    frames around it and a little more at its end, float32. `hertz` returns the fundamental
    frequency of the first N frames, 0 where unvoiced, [N].
    """

    heard: NDArray[np.float64]
    padded: Samples
    hertz: Callable[[int], Samples] | None


class RvcEngine:
    """Converts with an RVC voice; `pitch_model` None takes our own tracker.

    Unlike in the original tools, silence stays silent and is not converted, pieces are joined with
    a fade, and the result is exactly as long as the recording.
    """

    def __init__(
        self,
        manifest: CharacterManifest,
        networks: RvcNetworks,
        pitch_model: PitchTracker | None = None,
    ) -> None:
        self.sample_rate = manifest.sample_rate
        self._manifest = manifest
        self._networks = networks
        self._pitch_model = pitch_model

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        def speak(analysis: Analysis, clock: StageClock) -> Samples:
            with clock.stage("f0"):
                source = self._source(analysis)
            with clock.stage("network"):
                return self._speak(source, analysis, options)

        if self._cannot_be_steered(options):
            raise VoiceError(
                ErrorCode.INTERNAL,
                f"{self._manifest.name.en} does not take a pitch; leave pitch_shift at auto.",
            )
        return convert_recording(
            samples, sample_rate, self._manifest, speak, stopwatch, followed=0.0
        )

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        # With less of the recording, a pitch model would hear something else in its beginning.
        if self._pitch_model is not None or self._cannot_be_steered(options):
            return
        check_audio(samples)
        analysis = analyse(samples, sample_rate, NoClock())
        if not analysis.has_speech():
            return
        source = self._source(analysis)
        for phrase in plan_phrases(analysis.speech, analysis.levels.frames):
            if is_complete(phrase, len(analysis.speech)):
                self._speak_phrase(phrase, source, options)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options

    def _cannot_be_steered(self, options: ConversionOptions) -> bool:
        return options.pitch_shift is not None and self._networks.synthesizer.harmonics == 0

    def _source(self, analysis: Analysis) -> _Source:
        heard = high_pass(divide_peak(analysis.wave))
        padded = np.pad(heard, (PADDING * HOP, PADDING * HOP + _TAIL), mode="reflect")
        # The filter runs backward, too: what comes later changes its output by less than this step.
        padded = np.rint(padded * _FINEST) / _FINEST
        return _Source(heard, padded.astype(np.float32), self._pitch_tracker(analysis))

    def _pitch_tracker(self, analysis: Analysis) -> Callable[[int], Samples] | None:
        if self._networks.synthesizer.harmonics == 0:
            return None
        wave, model = analysis.wave, self._pitch_model
        if model is None:
            # Not cut out of a track of all frames: later ones can change the path through these.
            return lambda frames: track(wave[: frames * HOP]).hertz
        heard = model.track(wave)[: len(analysis.speech)]
        if not model.hears_voicing:
            heard = np.where(analysis.track.hertz > 0, heard, np.float32(0))
        return lambda frames: heard[:frames]

    def _contour(self, hertz: Samples, options: ConversionOptions) -> Contour:
        """Plan the pitch of all frames, with as many around them as the recording has."""
        pitch = self._manifest.pitch
        if pitch is None:
            moved = shift(hertz, options.pitch_shift or 0.0)
        else:
            voiced = hertz > 0
            moving = F0Track(hertz, voiced.astype(np.float32))
            planned = plan_pitch(moving, pitch, options.pitch_shift)
            moved = np.where(voiced, planned, np.float32(0))
        if self._networks.options.unvoiced == "fill":
            moved = fill_unvoiced(moved)
        # Reflected as the recording is, with frames enough for the longest wave.
        return contour(np.pad(moved, (PADDING, PADDING + _PITCH_TAIL), mode="reflect"))

    def _speak(self, source: _Source, analysis: Analysis, options: ConversionOptions) -> Samples:
        hop = self._networks.hop
        frames = len(analysis.speech)
        phrases = plan_phrases(analysis.speech, analysis.levels.frames)
        spoken = [
            part for phrase in phrases for part in self._speak_phrase(phrase, source, options)
        ]
        voice = fit_length(join(spoken, hop)[PADDING * hop :], frames * hop)
        return self._mix_loudness(voice, source.heard, [piece for piece, _ in spoken])

    def _speak_phrase(
        self, phrase: Sequence[Chunk], source: _Source, options: ConversionOptions
    ) -> list[tuple[Chunk, Samples]]:
        """Speak the pieces of a phrase; the register up to its end counts, and nothing later."""
        told = None
        if source.hertz is not None:
            told = self._contour(source.hertz(phrase[-1].end + _PITCH_TAIL), options)
        return [(piece, self._speak_piece(piece, source, told, options)) for piece in phrase]

    def _speak_piece(
        self, piece: Chunk, source: _Source, told: Contour | None, options: ConversionOptions
    ) -> Samples:
        wave = source.padded[piece.first * HOP : piece.last * HOP + _TAIL]
        part = told and told.cut(piece.first, piece.last + _PITCH_TAIL)

        def convert() -> Samples:
            # Noise of its own, so that a piece does not depend on those before it.
            spoken = self._networks.speak(wave, part, default_rng((options.seed, piece.begin)))
            return spoken[: (piece.last - piece.first) * self._networks.hop]

        if options.ahead is None:
            return convert()
        digest = hashlib.sha256(f"{options.seed} {piece.begin} ".encode())
        for array in (wave, part.hertz, part.coarse) if part else (wave,):
            digest.update(array.data)
        return options.ahead.piece(digest.digest(), convert)

    def _mix_loudness(
        self, voice: Samples, heard: NDArray[np.float64], pieces: list[Chunk]
    ) -> Samples:
        mix = self._networks.options.loudness_mix
        if mix == 1:
            return voice
        # What is not converted must not be compared with the silence in its place.
        converted = np.zeros_like(heard)
        for piece in pieces:
            own = slice((piece.begin - PADDING) * HOP, (piece.end - PADDING) * HOP)
            converted[own] = heard[own]
        gains = loudness_gains(converted, SAMPLE_RATE, voice, self.sample_rate, mix)
        return voice * gains


CONTENT, SYNTHESIZER, PITCH, RETRIEVAL = "content", "synthesizer", "pitch", "retrieval"


def contracts(manifest: CharacterManifest) -> dict[str, Contract]:
    read_settings(manifest)
    hop_of(manifest)
    optional: dict[str, Contract] = {PITCH: PitchModelContract(), RETRIEVAL: RetrievalContract()}
    present = {role: contract for role, contract in optional.items() if role in manifest.graphs}
    return {CONTENT: ContentContract(), SYNTHESIZER: SynthesizerContract(), **present}


def build(character: CharacterBundle, settings: SessionSettings) -> RvcEngine:
    """Build the engine; characters share equal content encoders, pitch models and synthesizers."""
    manifest, graphs = character.manifest, character.graphs
    options, output = read_settings(manifest)
    shape = graphs[SYNTHESIZER].facts.inputs["phone"].shape
    channels = shape[2] if shape is not None and isinstance(shape[2], int) else None
    encoder = OnnxContentEncoder(
        graphs[CONTENT], shared_session(graphs[CONTENT], settings), channels, output
    )
    synthesizer = OnnxSynthesizer(
        graphs[SYNTHESIZER], shared_session(graphs[SYNTHESIZER], settings), manifest.sample_rate
    )
    synthesizer.try_out(encoder.channels, options.speaker)
    retrieval = None
    if RETRIEVAL in graphs:
        session = GraphSession(graphs[RETRIEVAL], settings)
        retrieval = read_retrieval(graphs[RETRIEVAL], session, encoder.channels)
    pitch_model = None
    if PITCH in graphs:
        pitch_model = OnnxPitchModel(graphs[PITCH], shared_session(graphs[PITCH], settings))
    return RvcEngine(manifest, RvcNetworks(encoder, synthesizer, retrieval, options), pitch_model)
