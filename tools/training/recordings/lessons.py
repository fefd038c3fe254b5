"""Lessons of the decoder: content of the encoder, and the owner's envelopes."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import soxr
from numpy.typing import NDArray

from shared.speech.engines.content_encoder import tells_speaker
from shared.speech.signal.analysis import Analysis, analyse
from shared.speech.signal.samples import FRAMES_PER_SECOND
from shared.speech.signal.sound import NoClock
from tools.training.content.shared_encoder import SharedEncoder
from tools.training.decoder.disturbance import spoil, spoil_one_way
from tools.training.decoder.features import RATE, Floats, MelSpectrum
from tools.training.decoder.network import CEPSTRUM_SIZE, warped_axis
from tools.training.decoder.network import TARGET_RATE as AXIS_RATE
from tools.training.recordings.usable_speech import Utterance

with warnings.catch_warnings():
    # It asks setuptools for its own version, which setuptools has come to warn of.
    warnings.simplefilter("ignore")
    import pyworld

FRAME_SECONDS = 0.01
_POINTS = 256
_FLOOR = 1e-9
_EDGE_SHARE = 0.95
_EDGE_HZ = 1_000.0
_DROP_DB = -60.0
_FALL_PER_OCTAVE = 12.0


class Envelopes:
    def __init__(self, rate: int, highest_hz: float | None = None) -> None:
        self._rate = rate
        self._edge = _EDGE_SHARE * min(rate / 2, highest_hz or rate / 2)

    def of(self, wave: Floats, hertz: Floats) -> Floats:
        """Coefficients of a mel-generalised cepstrum (gamma 0, warping 0.55 at 48 kHz), [T, 35].

        Analysis by CheapTrick (M. Morise, "CheapTrick, a spectral envelope estimator for
        high-quality speech synthesis", Speech Communication 67, 2015). Where the recording has
        nothing, the envelope goes on from its highest part, falling by 12 dB per octave. `hertz` is
        f0 in frames of 10 ms, 0 where unvoiced, [T].
        """
        samples = np.ascontiguousarray(wave, np.float64)
        times = np.arange(len(hertz)) * FRAME_SECONDS
        power = pyworld.cheaptrick(samples, hertz.astype(np.float64), times, self._rate)
        log = 0.5 * np.log(power + _FLOOR * power.mean())
        on_axis = self._on_axis(log)
        result: Floats = (on_axis @ self._cosines).astype(np.float32)
        return result

    def _on_axis(self, log: NDArray[np.float64]) -> NDArray[np.float64]:
        position = np.minimum(self._axis_hz, self._edge) * 2 / self._rate * (log.shape[1] - 1)
        below = np.minimum(position.astype(int), log.shape[1] - 2)
        share = position - below
        on_axis: NDArray[np.float64] = log[:, below] * (1 - share) + log[:, below + 1] * share
        beyond = self._axis_hz > self._edge
        first = round((self._edge - _EDGE_HZ) * 2 / self._rate * (log.shape[1] - 1))
        last = round(self._edge * 2 / self._rate * (log.shape[1] - 1))
        octaves = np.log2(self._axis_hz[beyond] / self._edge)
        fall = _FALL_PER_OCTAVE * np.log(10) / 20 * octaves
        on_axis[:, beyond] = log[:, first:last].mean(1, keepdims=True) - fall
        return on_axis

    @cached_property
    def _axis_hz(self) -> NDArray[np.float64]:
        hertz = np.linspace(0, AXIS_RATE / 2, 4_096)
        warped = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
        return np.interp(warped, warped_axis(hertz), hertz)

    @cached_property
    def _cosines(self) -> NDArray[np.float64]:
        warped = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
        cosines: NDArray[np.float64] = np.cos(np.outer(warped, np.arange(CEPSTRUM_SIZE)))
        cosines *= 2 / _POINTS
        cosines[:, 0] /= 2
        return cosines


def highest_frequency(utterance: Utterance) -> float:
    """Where the spectrum of loud moments falls 60 dB for good: a codec's edge, in Hz."""
    size = 2_048
    wave = np.pad(utterance.samples, (0, max(0, size - len(utterance.samples))))
    frames = np.lib.stride_tricks.sliding_window_view(wave, size)[:: size // 2]
    power = np.percentile(np.abs(np.fft.rfft(frames * np.hanning(size))) ** 2, 95, axis=0)
    loud = np.flatnonzero(10 * np.log10(power / max(power.max(), 1e-20) + 1e-20) > _DROP_DB)
    return float((loud[-1] + 1) * utterance.rate / size) if len(loud) else utterance.rate / 2


DISTURBED_VERSIONS = 4
PAD_SECONDS = 0.15
_MOST_SPEED = np.log(1.3)
_VERSIONS_OF_PAIRS = 2
_TRACTS_OF_PAIRS = (np.log(0.76), np.log(1.15))
_LEVEL = 0.5
_JOINED_SECONDS = 12.0
# What the mean log amplitude of speech of loudness 1 is raised by, to be as loud as Mei speaks.
_LEVEL_OF_MEI = 11.5


@dataclass(frozen=True)
class Lesson:
    """One utterance as the decoder learns it; T frames of 10 ms.

    Attributes:
        contents: float16 [T, 128] each: what is heard in the utterance as it is, then in disturbed
            versions; each without its mean while somebody speaks.
        log_f0: float32 [T], natural logarithm of Hz, 0 where unvoiced.
        speaking: bool [T], False in pauses.
        cepstra: float16 [T, 35], the speaker's own envelopes, as loud as Mei speaks.
        louder: by how much their log amplitude is raised for that.
    """

    contents: list[NDArray[np.float16]]
    log_f0: Floats
    speaking: NDArray[np.bool_]
    cepstra: NDArray[np.float16]
    louder: float


def joined(utterances: Sequence[Utterance]) -> list[Utterance]:
    """Join utterances of one rate, with pauses, as long as what is usually converted.

    The encoder hears a word alone otherwise than among others, and the mean of a short utterance is
    mostly what is said in it, and not who says it.
    """
    rows: list[list[Utterance]] = []
    for utterance in utterances:
        last = rows[-1] if rows else []
        is_short = sum(one.seconds for one in last) + utterance.seconds <= _JOINED_SECONDS
        if last and is_short and last[0].rate == utterance.rate:
            last.append(utterance)
        else:
            rows.append([utterance])
    found = []
    for row in rows:
        pause = np.zeros(round(2 * PAD_SECONDS * row[0].rate), np.float32)
        parts = []
        for utterance in row:
            peak = max(float(np.abs(utterance.samples).max(initial=0.0)), 1e-4)
            parts += [utterance.samples * np.float32(_LEVEL / peak), pause]
        found.append(replace(row[0], samples=np.concatenate(parts[:-1])))
    return found


@dataclass(frozen=True)
class Pair:
    stranger: Floats
    owner: Utterance


class Preparation:
    def __init__(
        self,
        ear: SharedEncoder,
        seed: int,
        versions: int = DISTURBED_VERSIONS,
        *,
        is_harsh: bool = False,
    ) -> None:
        self._ear = ear
        self._random = np.random.default_rng(seed)
        self._versions = versions
        self._is_harsh = is_harsh
        self._mel = MelSpectrum()

    def of(self, utterances: Sequence[Utterance]) -> Iterator[Lesson]:
        envelopes = envelopes_by_rate(utterances)
        for utterance in utterances:
            padded = with_silence(utterance)
            analysis = analyse(padded, utterance.rate, NoClock())
            cepstra, louder = self._envelopes(envelopes[utterance.rate], padded, analysis)
            speaking = tells_speaker(analysis)
            contents = [self._ear.hear(analysis.wave, speaking)]
            for version in range(self._versions):
                speed = 1.0
                if version % 2:
                    # Played faster, a voice has a shorter vocal tract, too: another person's.
                    speed = float(np.exp(self._random.uniform(-_MOST_SPEED, _MOST_SPEED)))
                heard = soxr.resample(analysis.wave, RATE * speed, RATE).astype(np.float32)
                contents.append(self._ear.hear(self._spoilt(heard, version), speaking, speed))
            yield lesson_of(analysis, speaking, contents, cepstra, louder)

    def of_pairs(self, pairs: Sequence[Pair]) -> Iterator[Lesson]:
        """Make lessons of what strangers say, with envelopes of one who says the same."""
        envelopes = envelopes_by_rate([pair.owner for pair in pairs])
        for pair in pairs:
            padded = with_silence(pair.owner)
            analysis = analyse(padded, pair.owner.rate, NoClock())
            stranger = with_silence(replace(pair.owner, samples=pair.stranger))
            wave = soxr.resample(stranger, pair.owner.rate, RATE)[: len(analysis.wave)]
            cepstra, louder = self._envelopes(envelopes[pair.owner.rate], padded, analysis)
            speaking = tells_speaker(analysis)
            contents = []
            for version in range(_VERSIONS_OF_PAIRS * (1 + self._is_harsh)):
                speed = float(np.exp(self._random.uniform(*_TRACTS_OF_PAIRS)))
                heard = soxr.resample(wave, RATE * speed, RATE).astype(np.float32)
                if version % 2:
                    heard = self._spoilt(heard, version // 2)
                contents.append(self._ear.hear(heard, speaking, speed))
            yield lesson_of(analysis, speaking, contents, cepstra, louder)

    def _spoilt(self, heard: Floats, version: int) -> Floats:
        is_one_way = self._is_harsh and version % 2 == 0
        return (spoil_one_way if is_one_way else spoil)(heard, self._random)

    def _envelopes(
        self, envelopes: Envelopes, padded: Floats, analysis: Analysis
    ) -> tuple[Floats, float]:
        """The envelopes, as loud as Mei speaks, by the power of loud speech; how much louder."""
        cepstra = envelopes.of(padded, analysis.track.hertz)
        level = np.exp(self._mel.log_power(analysis.wave, len(cepstra))).mean(1)
        loudness = float((level * level).sum() / max(float(level.sum()), 1e-12))
        louder = float(_LEVEL_OF_MEI - 0.5 * np.log(loudness))
        cepstra[:, 0] += louder
        return cepstra, louder


def lesson_of(
    analysis: Analysis,
    speaking: NDArray[np.bool_],
    contents: Sequence[Floats],
    cepstra: Floats,
    louder: float,
) -> Lesson:
    hertz = analysis.track.hertz
    log_f0 = np.log(np.where(hertz > 0, hertz, 1)).astype(np.float32)
    kept = [content.astype(np.float16) for content in contents]
    return Lesson(kept, log_f0, speaking, cepstra.astype(np.float16), louder)


def envelopes_by_rate(utterances: Sequence[Utterance]) -> dict[int, Envelopes]:
    highest: dict[int, list[float]] = {}
    for utterance in utterances:
        highest.setdefault(utterance.rate, []).append(highest_frequency(utterance))
    # Not every utterance has a hiss, but one in ten has.
    return {rate: Envelopes(rate, float(np.percentile(all_, 90))) for rate, all_ in highest.items()}


def voiced_frames(wave: Floats, rate: int, frames: int) -> NDArray[np.bool_]:
    """Where Harvest finds a pitch: in more frames than the engine does, bool [frames]."""
    hertz, _ = pyworld.harvest(
        wave.astype(np.float64), rate, f0_floor=60, f0_ceil=600, frame_period=1_000 * FRAME_SECONDS
    )
    return np.asarray(np.resize(hertz, frames) > 0)


def with_silence(utterance: Utterance) -> Floats:
    """The utterance with short silences around it, at a level of its own."""
    pad = round(PAD_SECONDS * utterance.rate)
    peak = max(float(np.abs(utterance.samples).max(initial=0.0)), 1e-4)
    # A whole number of frames, so that those of both sample rates are equally many.
    frames = -(-(len(utterance.samples) + 2 * pad) * FRAMES_PER_SECOND // utterance.rate)
    length = -(-frames * utterance.rate // FRAMES_PER_SECOND)
    wave = np.zeros(length, np.float32)
    wave[pad : pad + len(utterance.samples)] = utterance.samples * (_LEVEL / peak)
    return wave
