"""The judges that are installed, and what is missing of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from training.judges.errors import JudgeMissingError
from training.judges.memory import Memory, RememberedNaturalness, RememberedWhisper
from training.judges.naturalness import DistillMos, Dnsmos, Naturalness
from training.judges.whisper import Whisper
from training.quality.similarity import Embedding, SpeakerEncoder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from training.sound.features import Floats


class Recogniser(Protocol):
    """Writes down what it understands."""

    def understand(self, wave: Floats, language: str) -> str:
        """Transcribe a 16 kHz recording, for example in `ja`."""


@dataclass(frozen=True)
class Panel:
    """Everybody who judges.

    Attributes:
        recogniser: tells what is understood; None if it is not installed.
        naturalness: tell how natural it sounds.
        speakers: tells who speaks.
        missing: what is not installed, and why.
    """

    recogniser: Recogniser | None
    naturalness: Sequence[Naturalness]
    speakers: Embedding
    missing: Sequence[str] = ()


def gather(models: Path, threads: int = 1) -> Panel:
    """Call those together who are installed.

    Args:
        models: keeps what is put together out of packages, and what was said of each recording.
        threads: that the recogniser computes with.
    """
    missing: list[str] = []
    memory = Memory(models / "said.jsonl")
    recogniser: Recogniser | None = None
    naturalness: list[Naturalness] = []
    try:
        recogniser = RememberedWhisper(Whisper(models / "whisper-base", threads), memory)
    except JudgeMissingError as error:
        missing.append(f"words (Whisper base): {error}")
    for name, kind in (("DNSMOS", Dnsmos), ("Distill-MOS", DistillMos)):
        try:
            naturalness.append(RememberedNaturalness(name, kind(), memory))
        except JudgeMissingError as error:
            missing.append(f"{name}: {error}")
    return Panel(recogniser, naturalness, SpeakerEncoder(), missing)
