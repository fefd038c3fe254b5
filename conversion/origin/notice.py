"""A short spoken notice in results: that they are synthetic, in the character's own voice."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, model_validator

from shared.process.settings import CommaSeparated, EnvironmentSettings
from speech.engines.interface.text_engine import SpeechOptions
from speech.signal.samples import resample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from speech.engines.interface.text_engine import PhraseEngine
    from speech.signal.arrays import Samples

    RunInThread = Callable[[Callable[[PhraseEngine], Samples], PhraseEngine], Awaitable[Samples]]

NoticePlace = Literal["off", "before", "after"]

TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {"ja": "これは、合成音声です。", "en": "This is a synthetic voice."}
)
"""What is said, by language."""

PAUSE_SECONDS: Final = 0.3
"""Between the notice and the result, and between two languages."""


class NoticeSettings(EnvironmentSettings):
    """The settings of the spoken notice.

    Attributes:
        notice: where it is said: off, before or after each result.
        notice_languages: in which languages, in this order, separated by commas: ja, en.
    """

    notice: NoticePlace = "off"
    notice_languages: Annotated[CommaSeparated, Field(min_length=1)] = ("ja", "en")

    @model_validator(mode="after")
    def _check_notice_languages(self) -> Self:
        unknown = set(self.notice_languages) - TEXTS.keys()
        if unknown:
            raise ValueError(
                f"NOTICE_LANGUAGES knows {', '.join(TEXTS)}, found {', '.join(sorted(unknown))}"
            )
        return self


class SpokenNotice:
    """Adds the notice to results; a character speaks it once for each language, and it is kept.

    Args:
        place: where it is said.
        languages: in which languages, in this order; those of TEXTS.
    """

    def __init__(self, place: Literal["before", "after"], languages: Sequence[str]) -> None:
        self._place: Literal["before", "after"] = place
        self._texts = [TEXTS[language] for language in languages]
        # A character that is unloaded takes its notice along.
        self._spoken: WeakKeyDictionary[PhraseEngine, Samples] = WeakKeyDictionary()
        self._one_at_a_time = asyncio.Lock()

    async def add(
        self, samples: Samples, sample_rate: int, engine: PhraseEngine | None, run: RunInThread
    ) -> tuple[Samples, NoticePlace]:
        """Return a result with the notice, and where the notice is.

        Args:
            samples: the result, float32 [N].
            sample_rate: in Hz.
            engine: speaks for the character; None if it takes no text, and then says nothing.
            run: runs a function in a thread.

        Raises:
            TextError: the character cannot say it.
        """
        if engine is None:
            return samples, "off"
        async with self._one_at_a_time:
            spoken = self._spoken.get(engine)
            if spoken is None:
                spoken = self._spoken[engine] = await run(self._speak, engine)
        heard = resample(spoken, engine.sample_rate, sample_rate)
        pause = np.zeros(round(PAUSE_SECONDS * sample_rate), np.float32)
        parts = [heard, pause, samples] if self._place == "before" else [samples, pause, heard]
        return np.concatenate(parts), self._place

    def _speak(self, engine: PhraseEngine) -> Samples:
        pause = np.zeros(round(PAUSE_SECONDS * engine.sample_rate), np.float32)
        pieces: list[Samples] = []
        for text in self._texts:
            # Without a voice's seed, so that all results of a character say it alike.
            pieces += [*engine.speak(text, SpeechOptions()), pause]
        return np.concatenate(pieces[:-1])


def open_notice(config: NoticeSettings) -> SpokenNotice | None:
    """Build the spoken notice of a deployment; None where it has none."""
    if config.notice == "off":
        return None
    return SpokenNotice(config.notice, config.notice_languages)
