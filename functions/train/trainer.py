"""The training command in a process with an environment of its own, and its progress.

PyTorch is not among the packages of the services. The process gets decoded recordings alone, no
credentials, and is killed with all its children when its time is over.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.characters.own.own_character import TrainingErrorCode, TrainingFailure

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

_PROGRESS: Final = re.compile(r"\[\d+/\d+\] ([a-z ]*[a-z])(?: +(\d+)%.*)?")
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR")
_LINES_KEPT: Final = 50
_TRACEBACK: Final = "Traceback (most recent call last):"
_REFUSED: Final = 1
"""The command's exit status for unusable recordings, and Python's after an exception."""

_REFUSAL: Final = re.compile(
    r"(?P<message>.*) \[(?P<code>[a-z_]+)\](?P<recordings>(?: [\w-]+\.wav)*)"
)


class RecordingsRefusedError(Exception):
    def __init__(self, failure: TrainingFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class TrainerCrashedError(Exception):
    """The trainer ended for another reason than the recordings."""


@dataclass(frozen=True, slots=True)
class Trainer:
    command: Sequence[str]
    folder: Path
    seconds: float
    environment: Mapping[str, str]

    async def run(
        self, arguments: Sequence[str], report: Callable[[str, float | None], Awaitable[None]]
    ) -> None:
        """Run it to its end; `report` gets the stage and the completed part of it, 0 to 1.

        Raises:
            RecordingsRefusedError: it refuses the recordings.
            TrainerCrashedError: it was killed, took too long or met an error of its own.
        """
        process = await asyncio.create_subprocess_exec(
            *self.command,
            *arguments,
            cwd=self.folder,
            env={**self.environment} | {"PYTHONPATH": str(self.folder), "PYTHONUNBUFFERED": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self.seconds):
                errors, _ = await asyncio.gather(_last_lines(process), _follow(process, report))
                status = await process.wait()
        except TimeoutError as error:
            raise TrainerCrashedError(f"it took longer than {self.seconds:g} s") from error
        finally:
            # The process may have ended and left children.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if status == 0:
            return
        if status == _REFUSED and errors and not any(_TRACEBACK in each for each in errors):
            raise _refusal(errors[-1])
        raise TrainerCrashedError(f"it ended with {status}: {' | '.join(errors[-3:])}")


def environment_of_trainer(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables of this process that the training may know: nothing secret."""
    return {name: environment[name] for name in _PASSED_ON if name in environment}


async def _follow(process: Process, report: Callable[[str, float | None], Awaitable[None]]) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    async for line in process.stdout:
        progress = _PROGRESS.fullmatch(line.decode(errors="replace").strip())
        if progress is not None:
            percent = progress[2]
            await report(progress[1], None if percent is None else int(percent) / 100)


def _refusal(line: str) -> RecordingsRefusedError:
    """Parse the command's last line: a sentence, mostly a code in brackets, and file names."""
    match = _REFUSAL.fullmatch(line)
    if match is None or match["code"] not in set(TrainingErrorCode):
        return RecordingsRefusedError(TrainingFailure(TrainingErrorCode.RECORDINGS_REFUSED, line))
    recordings = tuple(name.removesuffix(".wav") for name in match["recordings"].split())
    failure = TrainingFailure(TrainingErrorCode(match["code"]), match["message"], recordings)
    return RecordingsRefusedError(failure)


async def _last_lines(process: Process) -> Sequence[str]:
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    lines: deque[str] = deque(maxlen=_LINES_KEPT)
    async for line in process.stderr:
        lines.append(line.decode(errors="replace").strip())
    return [line for line in lines if line]
