"""Which graphs an RVC voice has, and how its engine is built from them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.random import default_rng  # at once: numpy imports it only when it is asked for
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest, Setting
from shared.runtime.quoting import quoted
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.rvc_networks import (
    ContentContract,
    OnnxContentEncoder,
    OnnxSynthesizer,
    RetrievalContract,
    RvcVoice,
    SynthesizerContract,
    VoiceOptions,
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
from shared.speech.signal.loudness import finish
from shared.speech.signal.pitch import HOP, SAMPLE_RATE, F0Track, track
from shared.speech.signal.pitch_shift import plan_pitch
from shared.speech.signal.samples import (
    FRAMES_PER_SECOND,
    check_audio,
    check_samples,
    converted_length,
    fit_length,
)
from shared.speech.signal.sound import NoClock, Samples, StageClock
from shared.voices.voice import ErrorCode, VoiceError

_SHARES = {"index_rate": 1.0, "protect": 0.5, "loudness_mix": 1.0}
_WORDS: Mapping[str, tuple[str, ...]] = {
    "search": ("exact", "cell"),
    "unvoiced": ("zero", "fill"),
}
_MOST_SPEAKERS = 10_000
_LONGEST_NAME = 200
_KNOWN = (*(option.name for option in fields(VoiceOptions)), "content_output")


@dataclass(frozen=True)
class RvcSettings:
    """What the manifest's settings say.

    Attributes:
        content_output: the output of the content encoder, or None for the first that fits.
    """

    options: VoiceOptions
    content_output: str | None


def read_settings(manifest: CharacterManifest) -> RvcSettings:
    """Read the engine's settings from a manifest; all may be left out.

    Raises:
        BundleError: one is unknown or wrong.
    """
    said = manifest.settings
    for name, value in said.items():
        _check(name, value)
    options = VoiceOptions(**{name: said[name] for name in said if name in _OPTIONS})  # type: ignore[arg-type] # checked
    output = said.get("content_output")
    return RvcSettings(options, None if output is None else str(output))


_OPTIONS = frozenset(option.name for option in fields(VoiceOptions))


def _check(name: str, value: Setting) -> None:
    """Refuse a setting that is unknown or wrong."""
    if name not in _KNOWN:
        _refuse(name, f"only {', '.join(_KNOWN)}", name)
    if name in _SHARES:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= float(value) <= _SHARES[name]:
            _refuse(name, f"a number from 0 to {_SHARES[name]:g}", value)
    elif name in _WORDS:
        if value not in _WORDS[name]:
            _refuse(name, " or ".join(f'"{word}"' for word in _WORDS[name]), value)
    elif name == "speaker":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_SPEAKERS:
            _refuse(name, f"a whole number from 0 to {_MOST_SPEAKERS - 1}", value)
    elif not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        _refuse(name, "the name of an output", value)


def _refuse(name: str, expected: str, found: object) -> None:
    field = quoted(f"settings.{name}")
    raise BundleError(f"{MANIFEST}: field {field}: expected {expected}, found {quoted(found)}.")


PADDING = 30  # frames: 0.3 s that the networks hear before and after a piece
LONGEST = 1_000  # frames: a synthesizer takes about 100 MB of memory for a second
_PAUSE = 40  # frames: a longer pause parts phrases
_GRID = 10  # frames, of which phrases begin and end at a multiple
_UNSURE = 12  # frames at the end of what has come, in which speech may have begun


def plan_phrases(
    speech: NDArray[np.bool_], levels: Samples, longest: int = LONGEST
) -> list[list[Chunk]]:
    """Plan the pieces of a recording, phrase by phrase; pauses between phrases are left out.

    Converting the padding of two pieces costs somewhat more than the shortest of these pauses, but
    the phrase before a pause can be converted while the next one is spoken. Long phrases are cut at
    the quietest places.

    Args:
        speech: the frames in which somebody speaks, bool [T].
        levels: level of each frame in dB, [T].
        longest: frames of a piece, without padding.

    Returns:
        Phrases in order, each with its pieces in order, in frames of the recording padded by
        PADDING frames at the beginning. All pieces have that many frames of context on both sides.
    """
    return [
        [
            Chunk(
                begin + part.begin + PADDING, begin + part.end + PADDING,
                begin + part.begin, begin + part.end + 2 * PADDING,
            )
            for part in cut_at_pauses(levels[begin:end], longest)
        ]
        for begin, end in _spoken(speech)
    ]  # fmt: skip


def is_complete(phrase: Sequence[Chunk], frames: int) -> bool:
    """Whether what is said later belongs to another phrase.

    Args:
        phrase: its pieces, as `plan_phrases` returns them.
    """
    return phrase[-1].end - PADDING + _PAUSE + _UNSURE <= frames


def _spoken(speech: NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    """List where speech begins and ends, short pauses included.

    Where exactly speech begins is told by the levels of the whole recording. The grid keeps what
    comes later from moving a phrase that is over.
    """
    frames = np.flatnonzero(speech)
    if len(frames) == 0:
        return []
    pauses = np.flatnonzero(np.diff(frames) > _PAUSE)
    begins = frames[np.concatenate([[0], pauses + 1])]
    ends = frames[np.concatenate([pauses, [len(frames) - 1]])] + 1
    begins, ends = begins // _GRID * _GRID, np.minimum(-(-ends // _GRID) * _GRID, len(speech))
    return [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]


# With so many samples more than its frames, a content encoder gives a feature for every two frames,
# also for the last of an odd number.
_TAIL = 240
_PITCH_TAIL = 2  # frames of pitch that the longest wave needs more than its piece has
_FINEST = float(1 << 20)  # steps of a sample of full scale


class PitchTracker(Protocol):
    """Follows the fundamental frequency."""

    @property
    def hears_voicing(self) -> bool:
        """Whether it tells voiced frames from unvoiced ones."""

    def track(self, wave: Samples) -> Samples:
        """Follow it: float32 [N] at 16 kHz -> Hz, 0 where unvoiced, float32 [N // 160 + 1]."""


@dataclass(frozen=True)
class _Source:
    """The inputs of the pieces of a recording.

    Attributes:
        heard: the recording without what lies below 48 Hz, float64 [160 T].
        padded: the same with PADDING frames around it, and a little more at its end, float32.
        hertz: gives the fundamental frequency of the first N frames, 0 where unvoiced, [N]; None
            if the voice takes none.
    """

    heard: NDArray[np.float64]
    padded: Samples
    hertz: Callable[[int], Samples] | None


def check_manifest(manifest: CharacterManifest) -> None:
    """Refuse a manifest that does not suit the engine.

    Raises:
        BundleError: its sample rate cannot be that of an RVC voice.
    """
    if manifest.sample_rate % FRAMES_PER_SECOND:
        raise BundleError(
            f"{MANIFEST}: field 'sample_rate': expected a multiple of {FRAMES_PER_SECOND},"
            f" found {manifest.sample_rate}."
        )


class RvcEngine:
    """Converts with an RVC voice; see Engine.

    It does better than the original tools where their users complain: silence in the recording
    stays silent and is not converted at all, the pieces of a long recording are joined with a fade,
    and the result is exactly as long as the recording.

    Args:
        pitch_model: follows the pitch, or None for our own tracker.
    """

    def __init__(
        self,
        manifest: CharacterManifest,
        voice: RvcVoice,
        pitch_model: PitchTracker | None = None,
    ) -> None:
        self._manifest = manifest
        self._voice = voice
        self._pitch_model = pitch_model

    @property
    def sample_rate(self) -> int:
        """Sample rate of the converted audio in Hz."""
        return self._manifest.sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        """Convert one recording; see Engine. A voice that takes no pitch cannot be steered."""
        if self._cannot_be_steered(options):
            raise VoiceError(
                ErrorCode.INTERNAL,
                f"{self._manifest.name.en} does not take a pitch; leave pitch_shift at auto.",
            )
        clock = stopwatch or NoClock()
        check_samples(samples, sample_rate, self._manifest)
        length = converted_length(len(samples), sample_rate, self.sample_rate)
        analysis = analyse(samples, sample_rate, clock)
        if not analysis.has_speech():
            return np.zeros(length, np.float32)
        with clock.stage("f0"):
            source = self._source(analysis)
        with clock.stage("network"):
            voice = self._speak(source, analysis, options)
        with clock.stage("post"):
            return finish(voice, self.sample_rate, length, analysis, followed=0.0)

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        """Convert the phrases that are complete; see ConvertsAhead."""
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
        """Return None: this engine converts only whole recordings."""
        del sample_rate, options

    def _cannot_be_steered(self, options: ConversionOptions) -> bool:
        return options.pitch_shift is not None and self._voice.synthesizer.harmonics == 0

    def _source(self, analysis: Analysis) -> "_Source":
        """The inputs of the pieces of a recording."""
        heard = high_pass(divide_peak(analysis.wave))
        padded = np.pad(heard, (PADDING * HOP, PADDING * HOP + _TAIL), mode="reflect")
        # The filter runs backward, too: what comes later changes its output by less than this step.
        padded = np.rint(padded * _FINEST) / _FINEST
        return _Source(heard, padded.astype(np.float32), self._hearing(analysis))

    def _hearing(self, analysis: Analysis) -> Callable[[int], Samples] | None:
        """Build the pitch tracker; None if the voice takes no pitch.

        It is given a number of frames, N, and returns Hz, 0 where unvoiced, [N].
        """
        if self._voice.synthesizer.harmonics == 0:
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
        if self._voice.options.unvoiced == "fill":
            moved = fill_unvoiced(moved)
        return _pad(contour(moved))

    def _speak(self, source: "_Source", analysis: Analysis, options: ConversionOptions) -> Samples:
        """Speak all of a recording, phrase by phrase: float32 [T hop]."""
        hop = self._voice.hop
        frames = len(analysis.speech)
        phrases = plan_phrases(analysis.speech, analysis.levels.frames)
        spoken = [
            part for phrase in phrases for part in self._speak_phrase(phrase, source, options)
        ]
        voice = fit_length(join(spoken, hop)[PADDING * hop :], frames * hop)
        return self._mix_loudness(voice, source.heard, [piece for piece, _ in spoken])

    def _speak_phrase(
        self, phrase: Sequence[Chunk], source: "_Source", options: ConversionOptions
    ) -> list[tuple[Chunk, Samples]]:
        """Speak the pieces of a phrase.

        How high somebody speaks is measured on what was said up to the phrase's end, so that a
        phrase does not depend on what comes after it.
        """
        told = None
        if source.hertz is not None:
            told = self._contour(source.hertz(phrase[-1].end + _PITCH_TAIL), options)
        return [(piece, self._speak_piece(piece, source, told, options)) for piece in phrase]

    def _speak_piece(
        self, piece: Chunk, source: "_Source", told: Contour | None, options: ConversionOptions
    ) -> Samples:
        wave = source.padded[piece.first * HOP : piece.last * HOP + _TAIL]
        part = told and told.cut(piece.first, piece.last + _PITCH_TAIL)

        def convert() -> Samples:
            # Noise of its own, so that a piece does not depend on those before it.
            spoken = self._voice.speak(wave, part, default_rng((options.seed, piece.begin)))
            return spoken[: (piece.last - piece.first) * self._voice.hop]

        if options.ahead is None:
            return convert()
        return options.ahead.piece(_digest(options.seed, piece.begin, wave, part), convert)

    def _mix_loudness(
        self, voice: Samples, heard: NDArray[np.float64], pieces: list[Chunk]
    ) -> Samples:
        mix = self._voice.options.loudness_mix
        if mix == 1:
            return voice
        # What is not converted must not be compared with the silence in its place.
        converted = np.zeros_like(heard)
        for piece in pieces:
            own = slice((piece.begin - PADDING) * HOP, (piece.end - PADDING) * HOP)
            converted[own] = heard[own]
        gains = loudness_gains(converted, SAMPLE_RATE, voice, self.sample_rate, mix)
        return voice * gains


def _pad(told: Contour) -> Contour:
    """Reflect a contour as the recording is, with frames enough for the longest wave."""
    around = (PADDING, PADDING + _PITCH_TAIL)
    return Contour(
        np.pad(told.hertz, around, mode="reflect"), np.pad(told.coarse, around, mode="reflect")
    )


def _digest(seed: int, begin: int, wave: Samples, told: Contour | None) -> bytes:
    """Tell pieces apart that are made from something else."""
    digest = hashlib.sha256(f"{seed} {begin} ".encode())
    digest.update(wave.data)
    if told is not None:
        digest.update(told.hertz.data)
        digest.update(told.coarse.data)
    return digest.digest()


CONTENT, SYNTHESIZER, PITCH, RETRIEVAL = "content", "synthesizer", "pitch", "retrieval"


def contracts(manifest: CharacterManifest) -> dict[str, Contract]:
    """List the graphs that the engine needs.

    Raises:
        BundleError: the manifest does not suit the engine.
    """
    read_settings(manifest)
    check_manifest(manifest)
    needed: dict[str, Contract] = {
        CONTENT: ContentContract(),
        SYNTHESIZER: SynthesizerContract(),
    }
    optional: dict[str, Contract] = {PITCH: PitchModelContract(), RETRIEVAL: RetrievalContract()}
    present = {role: contract for role, contract in optional.items() if role in manifest.graphs}
    return needed | present


def build(character: CharacterBundle, settings: SessionSettings) -> RvcEngine:
    """Build the engine; see EngineBuilder.

    Characters that have the same content encoder, pitch model or synthesizer share it.
    """
    manifest, graphs = character.manifest, character.graphs
    said = read_settings(manifest)
    encoder = _content_encoder(character, said, settings)
    synthesizer = OnnxSynthesizer(
        graphs[SYNTHESIZER],
        shared_session(graphs[SYNTHESIZER], settings),
        manifest.sample_rate,
    )
    synthesizer.try_out(encoder.channels, said.options.speaker)
    retrieval = None
    if RETRIEVAL in graphs:
        session = GraphSession(graphs[RETRIEVAL], settings)
        retrieval = read_retrieval(graphs[RETRIEVAL], session, encoder.channels)
    pitch_model = None
    if PITCH in graphs:
        pitch_model = OnnxPitchModel(graphs[PITCH], shared_session(graphs[PITCH], settings))
    voice = RvcVoice(encoder, synthesizer, retrieval, said.options)
    return RvcEngine(manifest, voice, pitch_model)


def _content_encoder(
    character: CharacterBundle, said: RvcSettings, settings: SessionSettings
) -> OnnxContentEncoder:
    graph = character.graphs[CONTENT]
    session = shared_session(graph, settings)
    shape = character.graphs[SYNTHESIZER].facts.inputs["phone"].shape
    channels = shape[2] if shape is not None and isinstance(shape[2], int) else None
    return OnnxContentEncoder(graph, session, channels, said.content_output)
