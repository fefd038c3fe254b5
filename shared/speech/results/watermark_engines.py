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
    """The watermark of a deployment: its 16 bits, and those of characters with their own."""

    key: WatermarkKey
    payload: int
    payloads: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def engine(self, character_id: str, engine: Engine) -> Engine:
        watermark = self.watermark(character_id, engine.sample_rate)
        if isinstance(engine, ConvertsAhead):
            return MarkedAheadEngine(engine, watermark, engine)
        return MarkedEngine(engine, watermark)

    def text_engine(self, character_id: str, engine: PhraseEngine) -> PhraseEngine:
        return MarkedTextEngine(engine, self.watermark(character_id, engine.sample_rate))

    def watermark(self, character_id: str, sample_rate: int) -> Watermark:
        return Watermark(self.key, self.payloads.get(character_id, self.payload), sample_rate)


@dataclass(frozen=True)
class MarkedEngine:
    """An engine whose converted speech is marked; the watermark is for its sample rate."""

    engine: Engine
    watermark: Watermark

    @property
    def sample_rate(self) -> int:
        return self.engine.sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        converted = self.engine.convert(samples, sample_rate, options, stopwatch)
        with (stopwatch or NoClock()).stage("post"):
            return self.watermark.mark(converted, options.seed)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        stream = self.engine.open_stream(sample_rate, options)
        return None if stream is None else MarkedStream(stream, self.watermark.open(options.seed))


@dataclass(frozen=True)
class MarkedAheadEngine(MarkedEngine):
    """An engine that converts ahead; these results stay unmarked: only the whole is marked."""

    ahead: ConvertsAhead

    def convert_ahead(self, samples: Samples, sample_rate: int, options: ConversionOptions) -> None:
        self.ahead.convert_ahead(samples, sample_rate, options)


@dataclass(frozen=True)
class MarkedStream:
    """A stream whose output is marked, which holds up to 40 ms back."""

    stream: Stream
    watermark: WatermarkStream

    @property
    def wanted(self) -> int:
        return self.stream.wanted

    def push(self, samples: Samples) -> Samples:
        return self.watermark.push(self.stream.push(samples))

    def finish(self) -> Samples:
        return self.watermark.end_with(self.stream.finish())


class MarkedTextEngine(TextEngineWrapper):
    def __init__(self, engine: PhraseEngine, watermark: Watermark) -> None:
        super().__init__(lambda: engine)
        self._watermark = watermark

    def _change(
        self, pieces: Iterator[MarkedPiece], options: SpeechOptions
    ) -> Iterator[MarkedPiece]:
        stream = self._watermark.open(options.seed)
        for piece in pieces:
            # Samples that wait for the rest of their chip begin the next piece.
            late = stream.waiting / self.sample_rate
            marked = MarkedPiece(
                stream.push(piece.samples), tuple(mark.later(late) for mark in piece.marks)
            )
            if len(marked.samples) or marked.marks:
                yield marked
        yield MarkedPiece(stream.end_with(np.zeros(0, np.float32)))


_MOST_BITS = (1 << 16) - 1


class WatermarkSettings(EnvironmentSettings):
    """The settings for marking results and for finding marks.

    Attributes:
        watermark_bits: the 16 bits that are put into every result, as a number.
        watermark_character_bits: entries CHARACTER=NUMBER for characters that have their own.
    """

    watermark_keys: SecretKeys = ()
    watermark_bits: Annotated[int, Field(ge=0, le=_MOST_BITS)] = 1
    watermark_character_bits: CommaSeparated = ()

    @model_validator(mode="after")
    def check_character_bits(self) -> Self:
        read_character_bits(self.watermark_character_bits)
        return self


def open_marker(config: WatermarkSettings) -> Marker | None:
    keys = watermark_keys(config.watermark_keys)
    if not keys:
        return None
    return Marker(
        keys[0], config.watermark_bits, read_character_bits(config.watermark_character_bits)
    )


def watermark_keys(secrets: tuple[SecretStr, ...]) -> tuple[WatermarkKey, ...]:
    return tuple(WatermarkKey(each.get_secret_value().encode()) for each in secrets)


def read_character_bits(entries: tuple[str, ...]) -> Mapping[str, int]:
    """Read entries of the form CHARACTER=NUMBER, where the number has 16 bits; or ValueError."""
    found: dict[str, int] = {}
    for entry in entries:
        character, _, number = entry.partition("=")
        if not character or not number.isdecimal() or int(number) > _MOST_BITS:
            raise ValueError(
                f"expected CHARACTER=NUMBER with a number from 0 to {_MOST_BITS}, found {entry!r}"
            )
        found[character.strip()] = int(number)
    return found
