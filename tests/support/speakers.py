"""Characters that speak and convert without a network, for tests of what is around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shared.conversion.characters import LoadedCharacter
from shared.speech.engines.text_interface import divide_as_asked, divide_text, nothing_to_say
from shared.speech.signal.samples import resample
from tests.support.characters import a_manifest

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from shared.speech.engines.interface import ConversionOptions, Engine
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
    from shared.speech.signal.sound import Samples
    from shared.speech.text.languages import Division

RATE = 24_000
ENDS = re.compile("[。、]")


@dataclass
class Sentences:
    """Says a tone of a tenth of a second up to each comma; `gate` lets each further one go on."""

    sample_rate: int = RATE
    languages: Sequence[str] = ("ja",)
    gate: threading.Semaphore | None = None
    spoken: list[str] = field(default_factory=list)
    asked: list[SpeechOptions] = field(default_factory=list)

    def divide(self, text: str, options: SpeechOptions) -> Division:
        return divide_as_asked(text, self.languages, options)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        read = divide_text(self, text, options).text
        return len([each for each in ENDS.split(read) if each]) / 10

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        read = divide_text(self, text, options).text
        if not any(each.isalpha() for each in read):
            raise nothing_to_say(text, self.languages)
        self.asked.append(options)
        return self._say([each for each in ENDS.split(read) if each.strip(" .")])

    def _say(self, sentences: list[str]) -> Iterator[Samples]:
        tone = 0.5 * np.sin(np.arange(self.sample_rate // 10) * (2 * np.pi * 440 / RATE))
        for number, sentence in enumerate(sentences):
            if self.gate is not None and number:
                self.gate.acquire()
            self.spoken.append(sentence)
            yield tone.astype(np.float32)


@dataclass
class Mirror:
    """Gives every recording back as it came, at its own rate."""

    sample_rate: int = RATE
    asked: list[ConversionOptions] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: object = None,
    ) -> Samples:
        del stopwatch
        self.asked.append(options)
        self.lengths.append(len(samples))
        return resample(samples, sample_rate, self.sample_rate)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options


def a_speaker(
    name: str = "mei", text: Sentences | None = None, engine: Mirror | None = None
) -> LoadedCharacter:
    """A character that speaks with these; it takes no text without one that does."""
    takes = "both" if text else "speech"
    manifest = cast("Any", a_manifest(name)).model_copy(update={"takes": takes})
    speaks = None if text is None else cast("PhraseEngine", text)
    return LoadedCharacter(manifest, cast("Engine", engine or Mirror()), speaks)
