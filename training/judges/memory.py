"""What judges said of recordings, kept in a file, so that a judgement goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from training.judges.naturalness import Naturalness
    from training.judges.whisper import Whisper
    from training.sound.features import Floats


class Memory:
    """Keeps answers by who gave them and what they were given.

    Args:
        file: a line of JSON for each answer; made if it is not there.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: dict[str, Any] = {}
        if file.exists():
            for line in file.read_text("utf-8").splitlines():
                if line.endswith("]"):  # the last may have been cut off
                    key, answer = json.loads(line)
                    self._kept[key] = answer

    def recall(self, who: str, wave: Floats, ask: Callable[[], Any]) -> Any:
        """Return an answer that was given before, or ask now.

        Args:
            who: is asked, and in which way.
            wave: the recording, float32.
            ask: answers with what JSON can hold.
        """
        key = f"{who} {hashlib.sha256(wave.tobytes()).hexdigest()}"
        if key not in self._kept:
            self._kept[key] = ask()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write("\n" + json.dumps([key, self._kept[key]], ensure_ascii=False))
        return self._kept[key]


class RememberedWhisper:
    """A recogniser that is asked once about each recording.

    Args:
        whisper: understands.
        memory: keeps what it understood.
    """

    def __init__(self, whisper: Whisper, memory: Memory) -> None:
        self._whisper = whisper
        self._memory = memory

    def understand(self, wave: Floats, language: str) -> str:
        """See `Whisper`."""
        who = f"whisper-base {language}"
        heard = self._memory.recall(who, wave, lambda: self._whisper.understand(wave, language))
        return str(heard)


class RememberedNaturalness:
    """A judge of naturalness that is asked once about each recording.

    Args:
        name: of the judge.
        judge: guesses.
        memory: keeps the marks.
    """

    def __init__(self, name: str, judge: Naturalness, memory: Memory) -> None:
        self._name = name
        self._judge = judge
        self._memory = memory

    def judge(self, wave: Floats) -> dict[str, float]:
        """See `Naturalness`."""
        return dict(self._memory.recall(self._name, wave, lambda: self._judge.judge(wave)))
