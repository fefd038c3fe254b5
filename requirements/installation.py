"""Run pip and show its progress: `python -m requirements.installation PYTHON -m pip install ...`.

pip writes a line for each of a hundred packages, or nothing at all. This writes a line for each
step; on a terminal the last one is written anew all the time, so that it moves.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STEPS: Final = {
    "Collecting": "looking up packages",
    "Processing": "looking up packages",
    "Installing": "writing packages",
}
"""What pip begins a line with, and what it does then."""

_SHOW_SECONDS: Final = 0.5
_ERROR_LINES: Final = 30


@dataclass
class Shown:
    """The progress of pip, as a person sees it."""

    out: TextIO
    now: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _step: str = ""
    _packages: int = 0
    _last: str = ""

    def __post_init__(self) -> None:
        self._began = self.now()

    def take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if word in {"Collecting", "Processing"}:
            self._packages += 1
            self._last = rest.partition(" ")[0].rpartition("/")[2]
        if word == "Downloading" and rest.endswith(")"):
            self._last = rest.rpartition("/")[2]
        step = STEPS.get(word, self._step)
        if word == "Installing":
            self._packages, self._last = rest.count(",") + 1, ""
        if step != self._step:
            self._step = step
            if not self.out.isatty():
                self._write("\n")
        self.move()

    def move(self) -> None:
        """On a terminal, write the line anew."""
        if self.out.isatty() and self._step:
            self.out.write("\r\x1b[K")
            self._write("")

    def end(self) -> None:
        """Say how many packages there are now."""
        self.out.write("\r\x1b[K" if self.out.isatty() else "")
        self.out.write(f"  {self._packages} packages installed in {self._time}\n")
        self.out.flush()

    @property
    def _time(self) -> str:
        seconds = int(self.now() - self._began)
        return f"{seconds // 60}:{seconds % 60:02}"

    def _write(self, end: str) -> None:
        count = f" {self._packages}" if self._packages > 1 else ""
        about = f": {self._last[:60]}" if self._last and not end else ""
        self.out.write(f"  {self._time} {self._step}{count}{about}{end}")
        self.out.flush()


def main(command: Sequence[str]) -> int:
    """Run pip; its own words appear only if it fails."""
    shown, said = Shown(sys.stdout), []
    pip = subprocess.Popen(  # noqa: S603 - the environment's own pip
        [*command, "--progress-bar=off"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    ended = threading.Event()

    def keep_moving() -> None:
        # pip writes packages for half a minute without a word.
        while not ended.wait(_SHOW_SECONDS):
            shown.move()

    mover = threading.Thread(target=keep_moving, daemon=True)
    mover.start()
    with pip:
        for line in pip.stdout or ():
            said.append(line)
            shown.take(line)
    ended.set()
    mover.join()
    if pip.returncode:
        sys.stdout.write("\n" + "".join(said[-_ERROR_LINES:]))
    else:
        shown.end()
    return pip.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
