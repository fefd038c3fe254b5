"""What the decoder learns from: content that the encoder hears, and the owner's envelopes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from speech.signal.clock import NoClock
from speech.signal.levels import FRAMES_PER_SECOND
from speech.signal.whole.analysis import Analysis, analyse
from training.augment import spoil
from training.features import RATE, Floats, MelSpectrum
from training.network import Network
from training.recordings.envelopes import Envelopes, highest_frequency
from training.recordings.screening import Utterance

DISTURBED_VERSIONS = 4
PAD_SECONDS = 0.15
_MOST_SPEED = np.log(1.22)
_LEVEL = 0.5
_AUDIBLE_DB = 45.0
# What the mean log amplitude of speech of loudness 1 is raised by, to be as loud as Mei speaks.
_LEVEL_OF_MEI = 11.5


@dataclass(frozen=True)
class Lesson:
    """One utterance as the decoder learns it; T frames of 10 ms.

    Attributes:
        mels: float16 [T, 80] each, what the encoder is given: of the utterance as it is, then of
            disturbed versions.
        contents: float16 [T, 64] each, what the encoder makes of them.
        log_f0: float32 [T], natural logarithm of Hz, 0 where unvoiced.
        speaking: bool [T], False in pauses.
        cepstra: float16 [T, 35], the speaker's own envelopes, as loud as Mei speaks; empty
            of those whose envelopes are not learnt.
    """

    mels: list[NDArray[np.float16]]
    contents: list[NDArray[np.float16]]
    log_f0: Floats
    speaking: NDArray[np.bool_]
    cepstra: NDArray[np.float16]


class Preparation:
    """Turns utterances into lessons.

    Args:
        network: whose encoder hears.
        seed: of the disturbances.
        versions: how many disturbed versions of each utterance.
    """

    def __init__(self, network: Network, seed: int, versions: int = DISTURBED_VERSIONS) -> None:
        self._network = network
        self._random = np.random.default_rng(seed)
        self._versions = versions
        self._mel = MelSpectrum()

    def of_owner(self, utterances: Sequence[Utterance]) -> Iterator[Lesson]:
        """Lessons with the speaker's envelopes."""
        envelopes = _envelopes_by_rate(utterances)
        for utterance in utterances:
            padded = _padded(utterance)
            analysis = analyse(padded, utterance.rate, NoClock())
            cepstra = envelopes[utterance.rate].of(padded, analysis.track.hertz)
            cepstra[:, 0] += _LEVEL_OF_MEI - 0.5 * np.log(self._loudness(analysis))
            yield self._lesson(analysis, cepstra)

    def of_others(self, utterances: Iterable[Utterance]) -> Iterator[Lesson]:
        """Lessons in which other people are only heard."""
        for utterance in utterances:
            analysis = analyse(_padded(utterance), utterance.rate, NoClock())
            yield self._lesson(analysis, np.zeros((0, 0), np.float32))

    def _lesson(self, analysis: Analysis, cepstra: Floats) -> Lesson:
        hertz, levels = analysis.track.hertz, analysis.levels
        log_f0 = np.log(np.where(hertz > 0, hertz, 1)).astype(np.float32)
        speaking = analysis.speech & (levels.frames > levels.speech - _AUDIBLE_DB)
        mels = [self._mel_of(analysis.wave, len(hertz), 1.0)]
        for version in range(self._versions):
            other = np.exp(self._random.uniform(-_MOST_SPEED, _MOST_SPEED)) if version % 2 else 1.0
            heard = soxr.resample(analysis.wave, RATE * other, RATE).astype(np.float32)
            mels.append(self._mel_of(spoil(heard, self._random), len(hertz), float(other)))
        contents = [hear(self._network, mel) for mel in mels]
        return Lesson(mels, contents, log_f0, speaking, cepstra.astype(np.float16))

    def _mel_of(self, wave: Floats, frames: int, speed: float) -> NDArray[np.float16]:
        power = torch.from_numpy(np.exp(self._mel.log_power(wave, frames, speed)))[None]
        with torch.no_grad():
            return self._network.normalise(power)[0].numpy().astype(np.float16)

    def _loudness(self, analysis: Analysis) -> float:
        """Power of loud speech, as the network measures it when it hears."""
        frames = len(analysis.track.hertz)
        level = np.exp(self._mel.log_power(analysis.wave, frames)).mean(1)
        return float((level * level).sum() / max(float(level.sum()), 1e-12))


def hear(network: Network, mel: NDArray[np.float16]) -> NDArray[np.float16]:
    """The content [T, 64] that a network hears in a normalised mel spectrum [T, 80]."""
    with torch.no_grad():
        content = network.hear(torch.from_numpy(mel.astype(np.float32))[None])[0]
    return content.numpy().T.astype(np.float16)


def heard_by(network: Network, lessons: Sequence[Lesson]) -> list[Lesson]:
    """The lessons with the content that another encoder hears in them."""
    return [replace(one, contents=[hear(network, mel) for mel in one.mels]) for one in lessons]


def _envelopes_by_rate(utterances: Sequence[Utterance]) -> dict[int, Envelopes]:
    """An analysis for each sample rate that knows how high its recordings reach."""
    highest: dict[int, list[float]] = {}
    for utterance in utterances:
        highest.setdefault(utterance.rate, []).append(highest_frequency(utterance))
    # Not every utterance has a hiss, but one in ten has.
    return {rate: Envelopes(rate, float(np.percentile(all_, 90))) for rate, all_ in highest.items()}


def _padded(utterance: Utterance) -> Floats:
    """The utterance with short silences around it, at a level of its own."""
    pad = round(PAD_SECONDS * utterance.rate)
    peak = max(float(np.abs(utterance.samples).max(initial=0.0)), 1e-4)
    # A whole number of frames, so that those of both sample rates are equally many.
    frames = -(-(len(utterance.samples) + 2 * pad) * FRAMES_PER_SECOND // utterance.rate)
    length = -(-frames * utterance.rate // FRAMES_PER_SECOND)
    wave = np.zeros(length, np.float32)
    wave[pad : pad + len(utterance.samples)] = utterance.samples * (_LEVEL / peak)
    return wave
