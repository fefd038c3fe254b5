"""Recordings of unseen speakers, by which characters are judged.

- Japanese sentences that voices of Kokoro speak, with their texts: `python -m
  tools.training.sources.kokoro .training/kokoro --only judges` writes them.
- English by ten readers of LibriSpeech, in `tools/training/people/strangers`, without texts: how
  they are understood as they spoke is what conversions are compared with.
"""

from dataclasses import dataclass
from pathlib import Path

from tools.training.decoder.features import Floats, read_speech

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
    """Something that was said, at 16 kHz; language or text are empty or None if not known."""

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
    """Read Opus and FLAC files of people, and what they say as LibriSpeech's lists tell it."""
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
    groups: dict[str, list[StrangerRecording]] = {}
    for recording in recordings:
        groups.setdefault(recording.group, []).append(recording)
    return [
        group[index * len(group) // min(most, len(group))]
        for group in groups.values()
        for index in range(min(most, len(group)))
    ]
