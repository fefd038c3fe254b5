"""Shows how far a training is, and how long it will take."""

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

_EVERY_SECONDS = {True: 0.5, False: 10.0}


@dataclass
class Progress:
    """One line for each stage; on a terminal it is written anew all the time."""

    stages: int
    out: TextIO = field(default_factory=lambda: sys.stdout)
    _stage: int = 0
    _name: str = ""
    _began: float = 0.0
    _first: int = 0
    _shown: float = 0.0

    def begin(self, name: str) -> None:
        """A stage begins."""
        self._end_line()
        self._stage += 1
        self._name = name
        self._began, self._first, self._shown = time.monotonic(), -1, 0.0
        self._write("")

    def report(self, done: int, total: int, note: str = "") -> None:
        """Say that so many of so many steps of the stage are done."""
        now = time.monotonic()
        if self._first < 0:
            # After a break the stage goes on from here.
            self._first = done - 1
        if now - self._shown < _EVERY_SECONDS[self.out.isatty()] and done < total:
            return
        self._shown = now
        steps = max(done - self._first, 1)
        left = (now - self._began) / steps * (total - done)
        notes = [f"{done / total:4.0%}", f"{_clock(left)} left", note]
        self._write(", ".join(part for part in notes if part))

    def say(self, sentence: str) -> None:
        """Write a line of its own."""
        self._end_line()
        self.out.write(f"{sentence}\n")
        self.out.flush()

    def _write(self, text: str) -> None:
        line = f"[{self._stage}/{self.stages}] {self._name} {text}".rstrip()
        if self.out.isatty():
            self.out.write(f"\r\x1b[K{line}")
        else:
            self.out.write(f"{line}\n")
        self.out.flush()

    def _end_line(self) -> None:
        if self._stage and self.out.isatty():
            self.out.write("\n")


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
