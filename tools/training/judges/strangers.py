"""Recordings of unseen speakers, by which characters are judged.

- Japanese sentences that voices of Kokoro speak: `python -m tools.training.sources.kokoro
.training/kokoro --only
  judges` writes them, with their texts.
- English by ten readers of LibriSpeech, in `tools/training/people/strangers`. What they say is not
known
  here: how they are understood as they spoke is what conversions are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.training.decoder.features import read_speech

if TYPE_CHECKING:
    from pathlib import Path

    from tools.training.decoder.features import Floats

TRANSCRIPTS = "transcripts.tsv"
READERS = "English readers"
_ENGLISH_KINDS = frozenset({".flac", ".opus"})
_NAMES = {
    "jm_kumo": "Japanese man",
    "jf_gongitsune": "Japanese woman",
    "jf_alpha": "another Japanese woman",
}


@dataclass(frozen=True)
class StrangerRecording:
    """Something that was said.

    Attributes:
        language: such as `ja`; empty if it is not known.
        wave: float32 [N] at 16 kHz.
        text: what is said; None if nobody wrote it down.
    """

    group: str
    name: str
    language: str
    wave: Floats
    text: str | None


def japanese(folder: Path) -> list[StrangerRecording]:
    """Read what voices speak: in each folder of `folder` WAV files and a list of their texts."""
    found = []
    for listed in sorted(folder.glob(f"*/{TRANSCRIPTS}")):
        group = _NAMES.get(listed.parent.name, listed.parent.name)
        for line in listed.read_text("utf-8").splitlines():
            file, language, text = line.split("\t")
            found.append(
                StrangerRecording(group, file, language, read_speech(listed.parent / file), text)
            )
    return found


def english(folder: Path) -> list[StrangerRecording]:
    """Read recordings of people, and what they say where lists like LibriSpeech's tell it.

    Args:
        folder: with Opus or FLAC files, also in folders, and `*.trans.txt` beside them.
    """
    texts = dict(
        line.split(" ", 1)
        for listed in folder.rglob("*.trans.txt")
        for line in listed.read_text("utf-8").splitlines()
    )
    files = sorted(file for file in folder.rglob("*") if file.suffix in _ENGLISH_KINDS)
    return [
        StrangerRecording(READERS, file.stem, "en", read_speech(file), texts.get(file.stem))
        for file in files
    ]


def spread(recordings: list[StrangerRecording], most: int) -> list[StrangerRecording]:
    """Choose so many of each group at most, spread over all of it."""
    groups: dict[str, list[StrangerRecording]] = {}
    for recording in recordings:
        groups.setdefault(recording.group, []).append(recording)
    return [
        group[index * len(group) // min(most, len(group))]
        for group in groups.values()
        for index in range(min(most, len(group)))
    ]
