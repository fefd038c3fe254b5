"""The engine of an RVC voice: it turns a recording into the same sentence in that voice."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import default_rng  # at once: numpy imports it only when it is asked for
from numpy.typing import NDArray

from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.voices.voice import ErrorCode, VoiceError
from speech.bundles.files import BundleError
from speech.engines.interface.engine import ConversionOptions
from speech.engines.rvc.filters import divide_peak, high_pass
from speech.engines.rvc.loudness import loudness_gains
from speech.engines.rvc.pieces import PADDING, is_complete, plan_phrases
from speech.engines.rvc.pitch.tracks import Contour, contour, fill_unvoiced, shift
from speech.engines.rvc.voice import RvcVoice
from speech.signal.arrays import Samples
from speech.signal.chunks import Chunk, join
from speech.signal.clock import NoClock, StageClock
from speech.signal.levels import FRAMES_PER_SECOND
from speech.signal.pitch.f0 import HOP, SAMPLE_RATE, F0Track, track
from speech.signal.pitch.shifting import plan_pitch
from speech.signal.samples import check_audio, check_samples, converted_length, fit_length
from speech.signal.whole.analysis import Analysis, analyse
from speech.signal.whole.finishing import finish

# With so many samples more than its frames, a content encoder gives a feature for every two frames,
# also for the last of an odd number.
_TAIL = 240
_PITCH_TAIL = 2  # frames of pitch that the longest wave needs more than its piece has
_FINEST = float(1 << 20)  # steps of a sample of full scale


class PitchModel(Protocol):
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
        manifest: of the character.
        voice: its networks.
        pitch_model: follows the pitch, or None for our own tracker.
    """

    def __init__(
        self,
        manifest: CharacterManifest,
        voice: RvcVoice,
        pitch_model: PitchModel | None = None,
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
