"""The one error of the importer."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import zipfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class VoiceFileError(ValueError):
    """A file that cannot become part of a character; the message is one sentence that says why.

    All that reads a foreign file in the tools raises it.
    """


def read_file(path: Path, most: int) -> bytes:
    require_file(path)
    try:
        with path.open("rb") as file:
            # First its size, which costs no memory: a file may say that it has terabytes.
            is_larger = os.fstat(file.fileno()).st_size > most
            content = b"" if is_larger else file.read(most + 1)
    except OSError as error:
        raise VoiceFileError(f"expected a readable file, found none ({error.strerror}).") from error
    if is_larger or len(content) > most:
        raise VoiceFileError(f"expected at most {most} bytes, found more.")
    return content


def require_file(path: Path) -> None:
    """Refuse a pipe, a device and a folder, of which some would be waited for without an end."""
    if path.exists() and not path.is_file():
        raise VoiceFileError("expected a file, found something else.")


_HEAD = 4096
_WEB_PAGES = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<script")
_ARCHIVES = (b"Rar!", b"7z\xbc\xaf\x27\x1c", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
_PARTS_OF_VOICES = (".pth", ".pt", ".onnx", ".aivmx", ".index")


def require_download(path: Path) -> None:
    """Refuse what is left of a failed download, and an archive that must be unpacked first."""
    if not path.is_file():
        return  # the importer says what is wrong with it
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise VoiceFileError("expected a voice, found an empty file; download it again.")
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        raise VoiceFileError(
            "expected a voice, found a pointer of Git LFS in its place; run `git lfs pull` there,"
            " or download the file itself."
        )
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB_PAGES):
        raise VoiceFileError(
            "expected a voice, found a web page; the download failed, perhaps for want of signing"
            " in; download the file itself."
        )
    if head.startswith(_ARCHIVES) or (head.startswith(b"PK") and holds_voice(path)):
        raise VoiceFileError("expected a voice, found an archive of one; unpack it first.")


def holds_voice(path: Path) -> bool:
    # PyTorch's own files are archives, too, but hold no file of a voice.
    try:
        with zipfile.ZipFile(path) as archive:
            return any(
                each.filename.lower().endswith(_PARTS_OF_VOICES)
                for each in archive.infolist()[:_MOST_LISTED]
            )
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


_MOST_LISTED = 1_000

SECONDS = 900
"""Of processor time; a voice of full size takes about 15."""
WAITING_SECONDS = 300
"""How much longer a step may take by the clock: the machine may be busy."""
MEMORY_BYTES = 24 << 30
"""Of addresses, of which the runtime reserves more than it uses."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def run_apart(
    step: Callable[[_Argument], _Result],
    argument: _Argument,
    *,
    seconds: int = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> _Result:
    """Run a step.

    Raises:
        VoiceFileError: the step raised it, or its process went over a limit or crashed.
        RuntimeError: no process starts, because the running script has no `__main__` guard.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, context, begin, (seconds, memory_bytes, seconds + WAITING_SECONDS)
    ) as processes:
        try:
            # The new process imports the script that is running before it does anything.
            processes.submit(int).result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "the process for a step of the import does not start; a script that imports a"
                ' voice must do so below `if __name__ == "__main__":`.'
            ) from error
        try:
            return processes.submit(step, argument).result()
        except BrokenProcessPool as error:
            raise VoiceFileError(
                f"expected a graph that runs within {seconds} s and"
                f" {memory_bytes >> 30} GiB of memory, found one that does not, or that crashes"
                " the runtime."
            ) from error
        except MemoryError as error:
            raise VoiceFileError(
                f"expected a graph that runs within {memory_bytes >> 30} GiB of memory, found a"
                " larger one."
            ) from error


def begin(seconds: int, memory_bytes: int, wall_seconds: int) -> None:
    # By a thread of the interpreter's own, so that it also ends a process that holds the lock.
    faulthandler.dump_traceback_later(wall_seconds, exit=True)
    limit(seconds, memory_bytes)


def limit(seconds: int, memory_bytes: int) -> None:
    """Limit this process, where the system can."""
    try:
        # Imported here, because Windows has no such limits; the import goes on without them.
        import resource  # noqa: PLC0415
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
