"""The interface of the engines: what builds them, and what a conversion may ask of them."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.text_interface import SpeechOptions, TextEngine
    from shared.speech.graphs.bundle import CharacterBundle, Contract
    from shared.speech.graphs.sessions import SessionSettings
    from shared.speech.signal.sound import Samples, StageClock


EarlySamples = NDArray[np.float32]


class EarlyPieces:
    """The pieces of one recording that were converted before all of it had come.

    A piece is found by what it was made from. The conversion of the whole recording takes a piece
    only if it would make it from the same input, bit for bit, so its result does not depend on what
    is here. Several threads may use it at once.
    """

    def __init__(self) -> None:
        self._pieces: dict[bytes, Future[EarlySamples]] = {}
        self._lock = threading.Lock()

    def piece(self, source: bytes, convert: Callable[[], EarlySamples]) -> EarlySamples:
        """Return a converted piece; whoever asks first converts it, and the others wait.

        If that fails, whoever waited converts it, too: it may have failed for want of memory.

        Args:
            source: a digest of all that the piece is made from.
            convert: makes it.

        Raises:
            Exception: as `convert` does.
        """
        with self._lock:
            begun = self._pieces.get(source)
            if begun is None:
                mine = self._pieces[source] = Future[EarlySamples]()
        if begun is not None:
            with suppress(Exception):
                return begun.result()
            return convert()
        try:
            mine.set_result(convert())
        except BaseException as error:
            mine.set_exception(error)
            raise
        return mine.result()


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
    ahead: EarlyPieces | None = field(default=None, compare=False)


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

    def __call__(self, character: CharacterBundle, settings: SessionSettings) -> Engine:
        """Build the engine."""


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


@dataclass(frozen=True, slots=True)
class Mark:
    """Where something begins.

    Attributes:
        kind: what begins.
        text: the word as it is read (numbers and English written out), or the phone as Open JTalk
            names it: `cl` is a closure, `N` the moraic nasal, a capital vowel a whispered one.
        begin: in seconds from the first sample of the piece on.
    """

    kind: Literal["word", "phone"]
    text: str
    begin: float

    def later(self, seconds: float) -> Mark:
        """The same so many seconds later, but never before the first sample."""
        return replace(self, begin=max(self.begin + seconds, 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class MarkedPiece:
    """A piece of speech.

    Attributes:
        samples: float32 [N].
        marks: what begins in it, in order; none where the voice does not know.
    """

    samples: Samples
    marks: tuple[Mark, ...] = ()


@runtime_checkable
class MarkingEngine(Protocol):
    """An engine that knows when words and phones begin."""

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak a text as `speak` of TextEngine does, the same samples, with marks."""


def speak_marked(engine: TextEngine, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
    """Speak a text with marks, or without any where the engine knows none.

    Raises:
        TextError: see TextEngine.
    """
    if isinstance(engine, MarkingEngine):
        return engine.speak_marked(text, options)
    return map(MarkedPiece, engine.speak(text, options))
