"""Stands for the engine of a character that speaks text and converts no recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from speech.bundles.bundle import Character
    from speech.engines.interface.engine import ConversionOptions
    from speech.networks.settings import SessionSettings
    from speech.signal.arrays import Samples
    from speech.signal.clock import StageClock


class TextOnlyEngine:
    """Refuses every recording; see Engine.

    Args:
        sample_rate: of the character's speech, in Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> NoReturn:
        """Refuse a recording.

        Raises:
            VoiceError: always.
        """
        del samples, sample_rate, options, stopwatch
        raise VoiceError(
            ErrorCode.SPEECH_NOT_TAKEN,
            "The character speaks text only; send a text, or choose another character.",
        )

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        """Open no stream."""
        del sample_rate, options


def build(character: Character, settings: SessionSettings) -> TextOnlyEngine:
    """Build it; see EngineBuilder."""
    del settings
    return TextOnlyEngine(character.manifest.sample_rate)
