"""Engines whose speech is marked: the one place where every conversion and synthesis passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field, SecretStr, model_validator

from shared.runtime.settings import CommaSeparated, EnvironmentSettings, SecretKeys
from shared.speech.engines.interface import ConvertsAhead, MarkedPiece, TextEngineWrapper
from shared.speech.results.watermark import Watermark, WatermarkKey
from shared.speech.signal.sound import NoClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.speech.engines.interface import ConversionOptions, Engine, Stream
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
    from shared.speech.results.watermark import WatermarkStream
    from shared.speech.signal.sound import Samples, StageClock


@dataclass(frozen=True)
class Marker:
    """Marks what the engines of a deployment's characters speak.

    Attributes:
        payload: the 16 bits, as a number.
    """

    key: WatermarkKey
    payload: int
    payloads: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def engine(self, character_id: str, engine: Engine) -> Engine:
        """Return an engine that marks what this one converts."""
        watermark = self._watermark(character_id, engine.sample_rate)
        if isinstance(engine, ConvertsAhead):
            return MarkedAheadEngine(engine, watermark, engine)
        return MarkedEngine(engine, watermark)

    def text_engine(self, character_id: str, engine: PhraseEngine) -> PhraseEngine:
        """Return an engine that marks what this one speaks."""
        return MarkedTextEngine(engine, self._watermark(character_id, engine.sample_rate))

    def _watermark(self, character_id: str, sample_rate: int) -> Watermark:
        return Watermark(self.key, self.payloads.get(character_id, self.payload), sample_rate)


class MarkedEngine:
    """Marks what another engine converts; see Engine.

    Args:
        watermark: for its sample rate.
    """

    def __init__(self, engine: Engine, watermark: Watermark) -> None:
        self._engine = engine
        self._watermark = watermark

    @property
    def sample_rate(self) -> int:
        """Sample rate of the converted audio in Hz."""
        return self._engine.sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        """Convert one recording and mark it; see Engine."""
        converted = self._engine.convert(samples, sample_rate, options, stopwatch)
        with (stopwatch or NoClock()).stage("post"):
            return self._watermark.mark(converted, options.seed)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        """Begin a conversion while somebody speaks; see Engine."""
        stream = self._engine.open_stream(sample_rate, options)
        return None if stream is None else MarkedStream(stream, self._watermark.open(options.seed))


class MarkedAheadEngine(MarkedEngine):
    """Marks what an engine converts that converts ahead; see ConvertsAhead.

    What is converted ahead is kept unmarked: only the whole sound is marked.

    Args:
        watermark: for its sample rate.
    """

    def __init__(self, engine: Engine, watermark: Watermark, ahead: ConvertsAhead) -> None:
        super().__init__(engine, watermark)
        self._ahead = ahead

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        """Convert what is complete of a recording; see ConvertsAhead."""
        self._ahead.convert_ahead(samples, sample_rate, options)


class MarkedStream:
    """Marks what is heard while somebody speaks; see Stream.

    Args:
        watermark: marks; it holds up to 40 ms back.
    """

    def __init__(self, stream: Stream, watermark: WatermarkStream) -> None:
        self._stream = stream
        self._watermark = watermark

    @property
    def wanted(self) -> int:
        """How many samples more of the recording it needs, at least; see Stream."""
        return self._stream.wanted

    def push(self, samples: Samples) -> Samples:
        """Take the next samples of the recording and return what can be heard now; see Stream."""
        return self._watermark.push(self._stream.push(samples))

    def finish(self) -> Samples:
        """Take the end of the recording and return the rest; see Stream."""
        return self._watermark.end_with(self._stream.finish())


class MarkedTextEngine(TextEngineWrapper):
    """Marks the speech of another engine, at the watermark's sample rate."""

    def __init__(self, engine: PhraseEngine, watermark: Watermark) -> None:
        super().__init__(lambda: engine)
        self._watermark = watermark

    def _change(
        self, pieces: Iterator[MarkedPiece], options: SpeechOptions
    ) -> Iterator[MarkedPiece]:
        stream = self._watermark.open(options.seed)
        for piece in pieces:
            # What waits for the rest of its chip begins the next piece.
            late = stream.waiting / self.sample_rate
            marked = MarkedPiece(
                stream.push(piece.samples), tuple(mark.later(late) for mark in piece.marks)
            )
            if len(marked.samples) or marked.marks:
                yield marked
        yield MarkedPiece(stream.end_with(np.zeros(0, np.float32)))


_MOST_BITS = (1 << 16) - 1


class WatermarkSettings(EnvironmentSettings):
    """The settings of whatever marks results, or looks for the mark.

    Attributes:
        watermark_bits: the 16 bits that are put into every result, as a number.
    """

    watermark_keys: SecretKeys = ()
    watermark_bits: Annotated[int, Field(ge=0, le=_MOST_BITS)] = 1
    watermark_character_bits: CommaSeparated = ()

    @model_validator(mode="after")
    def _check_character_bits(self) -> Self:
        read_character_bits(self.watermark_character_bits)
        return self


def open_marker(config: WatermarkSettings) -> Marker | None:
    """Build the watermark of the deployment; None without a key."""
    keys = watermark_keys(config.watermark_keys)
    if not keys:
        return None
    return Marker(
        keys[0], config.watermark_bits, read_character_bits(config.watermark_character_bits)
    )


def watermark_keys(secrets: tuple[SecretStr, ...]) -> tuple[WatermarkKey, ...]:
    """Return the keys of secrets from the settings."""
    return tuple(WatermarkKey(each.get_secret_value().encode()) for each in secrets)


def read_character_bits(entries: tuple[str, ...]) -> Mapping[str, int]:
    """Read entries of the form CHARACTER=NUMBER.

    Raises:
        ValueError: one has another form, or a number does not have 16 bits.
    """
    found: dict[str, int] = {}
    for entry in entries:
        character, _, number = entry.partition("=")
        if not character or not number.isdecimal() or int(number) > _MOST_BITS:
            raise ValueError(
                f"expected CHARACTER=NUMBER with a number from 0 to {_MOST_BITS}, found {entry!r}"
            )
        found[character.strip()] = int(number)
    return found
