"""The interface of the engines: what builds them, and what a conversion may ask of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from shared.characters.manifest import CharacterManifest
from speech.bundles.bundle import Character
from speech.bundles.contracts import Contract
from speech.engines.interface.ahead import Ahead
from speech.networks.settings import SessionSettings
from speech.signal.arrays import Samples
from speech.signal.clock import StageClock


@dataclass(frozen=True)
class ConversionOptions:
    """What a conversion may ask for.

    Attributes:
        pitch_shift: semitones, or None for the character's pitch policy.
        seed: of the noise in the voice, 0 or more; the same seed gives the same samples.
        ahead: what is converted already, for engines that convert ahead; it changes no sample.
    """

    pitch_shift: float | None = None
    seed: int = 0
    ahead: Ahead | None = field(default=None, compare=False)


class Stream(Protocol):
    """Converts speech while somebody speaks; used by one thread at a time.

    What it gives is the sample of the character that goes with the recording's, from the first one
    on, some tenths of a second after it came in. However the recording is cut into pieces, it gives
    the same samples. It knows only what came so far and is not what `Engine.convert` gives.
    """

    @property
    def wanted(self) -> int:
        """How many samples more of the recording it needs, at least, before it gives any."""
        ...

    def push(self, samples: Samples) -> Samples:
        """Take the next samples of the recording, float32 [N], and return what can be heard now.

        Returns:
            float32 [M], M from 0 on, within -0.99..0.99.

        Raises:
            VoiceError: samples are not finite (`corrupt`).
        """

    def finish(self) -> Samples:
        """Take the end of the recording and return the rest: then as many as `convert` returns."""


class Engine(Protocol):
    """Turns speech into a character's speech; several threads may use one instance at once."""

    @property
    def sample_rate(self) -> int:
        """Sample rate of the converted audio in Hz."""

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        """Convert one recording.

        Args:
            samples: mono audio, float32 [N], nominally -1..1.
            sample_rate: of the samples, in Hz.
            options: what is asked for.
            stopwatch: measures the stages `resample`, `f0`, `network` and `post`.

        Returns:
            float32 [round(N * self.sample_rate / sample_rate)], within -0.99..0.99.

        Raises:
            VoiceError: the character cannot convert this recording, or not with these options.
        """

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        """Begin a conversion while somebody speaks.

        Args:
            sample_rate: of the recording, in Hz.
            options: what is asked for.

        Returns:
            None if this engine converts only whole recordings.

        Raises:
            VoiceError: the character cannot convert with these options.
        """


@runtime_checkable
class ConvertsAhead(Protocol):
    """An engine that is so slow that it gains from converting a recording while it comes."""

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        """Convert what is complete of a recording, up to a pause, for `options.ahead` to keep.

        Args:
            samples: what has come of it so far, mono float32 [N].
            sample_rate: in Hz.
            options: the same as for the whole recording.

        Raises:
            VoiceError: samples are not finite (`corrupt`).
        """
        ...


class EngineBuilder(Protocol):
    """Builds the engine of one character."""

    def __call__(self, character: Character, settings: SessionSettings) -> Engine:
        """Build the engine.

        Raises:
            BundleError: a graph does not load, or its output is wrong.
        """


@dataclass(frozen=True)
class EngineKind:
    """One kind of engine.

    Attributes:
        contracts: says which graphs the engine needs for a manifest, by role; raises BundleError if
            the manifest does not suit the engine.
        build: builds the engine of a verified character.
    """

    contracts: Callable[[CharacterManifest], Mapping[str, Contract]]
    build: EngineBuilder
