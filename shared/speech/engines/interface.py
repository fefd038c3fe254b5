"""The interface of the engines, and the options of a conversion."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions, TextEngine
    from shared.speech.graphs.bundle import CharacterBundle, Contract
    from shared.speech.graphs.sessions import SessionSettings
    from shared.speech.signal.sound import Samples, StageClock
    from shared.speech.text.accents import AccentPhrase
    from shared.speech.text.languages import Division


class EarlyPieces:
    """Pieces of one recording that were converted before all of it had arrived.

    A piece is found by a digest of its input. The conversion of the whole recording takes a piece
    only if it would make it from the same input, bit for bit: the result is the same without it.
    Safe for threads.
    """

    def __init__(self) -> None:
        self._pieces: dict[bytes, Future[Samples]] = {}
        self._lock = threading.Lock()

    def piece(self, source: bytes, convert: Callable[[], Samples]) -> Samples:
        """Return a converted piece; the first caller converts it, and the others wait.

        If that fails, they convert it themselves: it may have failed for lack of memory. `source`
        is a digest of all that the piece is made from.
        """
        with self._lock:
            begun = self._pieces.get(source)
            if begun is None:
                mine = self._pieces[source] = Future()
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
    """Options of a conversion; `pitch_shift` None is the character's own pitch policy.

    The same seed (0 or more) gives the same samples. `ahead` holds the pieces that are already
    converted; it changes no sample.
    """

    pitch_shift: float | None = None
    seed: int = 0
    ahead: EarlyPieces | None = field(default=None, compare=False)


class Stream(Protocol):
    """Converts speech while somebody speaks; used by one thread at a time.

    Each sample that it returns belongs to one of the recording, from the first on, some tenths of a
    second later. The samples do not depend on how the recording is cut, but differ from those of
    `Engine.convert`, which knows all of the recording.
    """

    @property
    def wanted(self) -> int:
        """The samples of the recording that it needs at least before it returns any."""

    def push(self, samples: Samples) -> Samples:
        """Take samples, float32 [N]; return those that can be heard now, within -0.99..0.99.

        Raises VoiceError (`corrupt`) if samples are not finite.
        """

    def finish(self) -> Samples:
        """Take the end; return the rest, up to as many samples as `convert` returns."""


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
        """Convert a recording, mono float32 [N], nominally -1..1, at a sample rate in Hz.

        The stopwatch measures the stages `resample`, `f0`, `network` and `post`. Returns float32
        [round(N * self.sample_rate / sample_rate)], within -0.99..0.99. Raises VoiceError if the
        character cannot convert this recording, or not with these options.
        """

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        """Begin a conversion while somebody speaks; None if there are only whole conversions."""


@runtime_checkable
class ConvertsAhead(Protocol):
    """An engine so slow that it gains from converting a recording while it arrives."""

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        """Convert what is complete of the samples so far, for `options.ahead` to keep.

        Raises VoiceError (`corrupt`) if samples are not finite.
        """


class EngineBuilder(Protocol):
    def __call__(self, character: CharacterBundle, settings: SessionSettings) -> Engine: ...


@dataclass(frozen=True)
class EngineKind:
    """One kind of engine: its graphs by role, or BundleError for a manifest; its builder."""

    contracts: Callable[[CharacterManifest], Mapping[str, Contract]]
    build: EngineBuilder


@dataclass(frozen=True, slots=True)
class Mark:
    """The beginning of a word or a phone, in seconds from the piece's first sample.

    A word is as it is read (numbers and English written out), a phone as Open JTalk names it: `cl`
    is a closure, `N` the moraic nasal, a capital vowel a whispered one.
    """

    kind: Literal["word", "phone"]
    text: str
    begin: float

    def later(self, seconds: float) -> Mark:
        return replace(self, begin=max(self.begin + seconds, 0.0))


@dataclass(frozen=True, eq=False, slots=True)
class MarkedPiece:
    """A piece of speech, float32 [N], and its marks in order; none if the engine knows none."""

    samples: Samples
    marks: tuple[Mark, ...] = ()


@runtime_checkable
class MarkingEngine(Protocol):
    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak a text, with the samples of `TextEngine.speak`, and mark it."""


def speak_marked(engine: TextEngine, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
    """Speak a text with marks, or without any where the engine knows none."""
    if isinstance(engine, MarkingEngine):
        return engine.speak_marked(text, options)
    return map(MarkedPiece, engine.speak(text, options))


class TextEngineWrapper:
    """Speaks texts with another engine; a subclass changes the options or the speech."""

    def __init__(self, engine: Callable[[], PhraseEngine]) -> None:
        self._engine = engine

    @property
    def sample_rate(self) -> int:
        return self._engine().sample_rate

    @property
    def languages(self) -> Sequence[str]:
        return self._engine().languages

    def divide(self, text: str, options: SpeechOptions) -> Division:
        return self._engine().divide(text, options)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        return self._engine().estimate(text, options)

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        return self._samples(self._engine().speak(text, self._options(options)), options)

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        return self._change(speak_marked(self._engine(), text, self._options(options)), options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        return self._engine().read_phrases(text)

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        pieces = self._engine().speak_phrases(phrases, text, self._options(options))
        return self._samples(pieces, options)

    def _samples(self, pieces: Iterator[Samples], options: SpeechOptions) -> Iterator[Samples]:
        return (piece.samples for piece in self._change(map(MarkedPiece, pieces), options))

    def _options(self, options: SpeechOptions) -> SpeechOptions:
        return options

    def _change(
        self, pieces: Iterator[MarkedPiece], options: SpeechOptions
    ) -> Iterator[MarkedPiece]:
        del options
        return pieces
