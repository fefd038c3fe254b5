"""An RVC voice: what its networks do, and how one piece of speech goes through them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from speech.engines.rvc.features import (
    SAMPLE_RATE,
    frame_count,
    protect_unvoiced,
    to_frames,
)
from speech.engines.rvc.pitch.tracks import Contour, Unvoiced
from speech.engines.rvc.retrieval import Retrieval, Search

Array = NDArray[np.float32]

PRIOR_CHANNELS = 192
_PRIOR_SCALE = np.float32(0.66666)


@dataclass(frozen=True)
class VoiceOptions:
    """How a voice is used; the defaults are those of the original tools' pages.

    Attributes:
        speaker: its number in a voice of several.
        index_rate: share of the retrieved features, 0 to 1.
        search: how they are looked for; see Retrieval.mix.
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


class ContentEncoder(Protocol):
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
        self, features: Array, contour: Contour | None, speaker: int, noise: "Noise"
    ) -> Array:
        """Speak T frames.

        Args:
            features: float32 [T, C].
            contour: T frames of pitch, or None if it takes none.
            speaker: number of the speaker.
            noise: for T frames.

        Returns:
            float32 [T sample_rate / 100].
        """


@dataclass(frozen=True)
class Noise:
    """The noise of T frames.

    Attributes:
        prior: by which the synthesizer's latent strays from its mean, scaled, float32 [192, T].
        source: of the excitation's H harmonics, standard normal, float32 [T hop, H].
    """

    prior: Array
    source: Array


def draw_noise(random: Generator, frames: int, synthesizer: Synthesizer) -> Noise:
    """Draw the noise of T frames: first the prior's, then the source's."""
    samples = frames * synthesizer.sample_rate // 100
    prior = random.standard_normal((PRIOR_CHANNELS, frames), np.float32) * _PRIOR_SCALE
    return Noise(prior, random.standard_normal((samples, synthesizer.harmonics), np.float32))


@dataclass(frozen=True)
class RvcVoice:
    """The networks and vectors of one voice.

    Attributes:
        encoder: of the content.
        synthesizer: of the voice.
        retrieval: features of the voice's training, or None.
        options: how they are used.
    """

    encoder: ContentEncoder
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
            random: where the noise comes from.

        Returns:
            float32 [T hop], with T = min(N // 160, 2 ((N - 400) // 320 + 1)).
        """
        frames = frame_count(len(wave))
        spoken = None if contour is None else contour.cut(0, frames)
        features = self._features(wave, spoken, frames)
        noise = draw_noise(random, frames, self.synthesizer)
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


__all__ = [
    "PRIOR_CHANNELS",
    "SAMPLE_RATE",
    "ContentEncoder",
    "Noise",
    "RvcVoice",
    "Synthesizer",
    "VoiceOptions",
    "draw_noise",
]
