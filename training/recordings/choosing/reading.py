"""Reads a folder of recordings, piece by piece, so that an hour in one file needs little memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shared.voices.media import SNIFF_BYTES, sniff
from shared.voices.voice import VoiceError
from speech.decoding.recordings.demuxing import Demuxer, Format
from speech.decoding.recordings.recording import as_float, downmix
from speech.signal.samples import resample
from training.recordings.runs.errors import RecordingsError
from training.sound.features import Floats

PIECE_SECONDS = 240
HIGHEST_RATE = 48_000
MAX_FILE_BYTES = 1 << 30
_LONGEST_SECONDS = 12 * 3600.0
_DTYPES = {"u8": "u1", "s16": "<i2", "s32": "<i4", "s64": "<i8", "flt": "<f4", "dbl": "<f8"}
_SUFFIXES = frozenset(
    ".wav .wave .flac .mp3 .m4a .mp4 .aac .ogg .oga .opus .webm .mka .mkv .aif .aiff .wma .amr"
    " .g722 .gsm .caf".split()
)
"""What is tried; the file's content decides, and the rest of a folder is not of our concern."""


@dataclass(frozen=True)
class Piece:
    """A part of a recording.

    Attributes:
        file: its name, relative to the folder.
        start: seconds in the file at which it begins.
        samples: float32 [N], one channel.
        rate: in Hz, the recording's own, at most 48 000.
    """

    file: str
    start: float
    samples: Floats
    rate: int


@dataclass(frozen=True)
class Recording:
    """A file that is probably a recording."""

    path: Path
    name: str


def find_recordings(folder: Path) -> list[Recording]:
    """Find the recordings in a folder and the folders in it, by their names, in order.

    Raises:
        RecordingsError: there is no such folder, or no recording in it.
    """
    if not folder.is_dir():
        raise RecordingsError(f"{folder}: expected a folder with recordings, found none.")
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in _SUFFIXES)
    found = [
        Recording(path, path.relative_to(folder).as_posix()) for path in paths if _visible(path)
    ]
    if not found:
        raise RecordingsError(
            f"{folder}: expected recordings (WAV, FLAC, MP3 or M4A), found none; put at least two"
            " minutes of speech there, better five."
        )
    return found


def _visible(path: Path) -> bool:
    """Whether it is a file, and not one that macOS leaves beside every real one."""
    return path.is_file() and not path.name.startswith(".")


def read_pieces(recording: Recording) -> Iterator[Piece]:
    """Decode a recording in pieces of up to four minutes.

    Raises:
        RecordingsError: it cannot be read; the message says why, without the file's name.
    """
    demuxer = _open(recording.path)
    parts: list[bytes] = []
    size = read = 0
    try:
        for chunk in demuxer.chunks(_LONGEST_SECONDS, 1 << 62):
            parts.append(bytes(chunk))
            size += len(parts[-1])
            form = _format_of(demuxer)
            if size >= PIECE_SECONDS * form.sample_rate * form.bytes_per_sample:
                yield _piece(recording, read, parts, form)
                read += size // form.bytes_per_sample
                parts, size = [], 0
    except VoiceError as error:
        # What was read before a file breaks off is as good as any other recording.
        if not read and not parts:
            message = error.message[:1].lower() + error.message[1:].rstrip(".")
            raise RecordingsError(message) from error
    if parts:
        yield _piece(recording, read, parts, _format_of(demuxer))


def _open(path: Path) -> Demuxer:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RecordingsError("it has more than 1 GiB; save it as FLAC or in several files")
        data = path.read_bytes()
    except OSError as error:
        raise RecordingsError(f"it cannot be opened ({error.strerror})") from error
    container = sniff(data[:SNIFF_BYTES])
    if container is None:
        raise RecordingsError("it is no WAV, FLAC, MP3, M4A, AAC, Ogg or WebM")
    return Demuxer(data, container)


def _format_of(demuxer: Demuxer) -> Format:
    if demuxer.format is None:
        raise RecordingsError("nothing in it can be decoded")
    return demuxer.format


def _piece(recording: Recording, read: int, parts: list[bytes], form: Format) -> Piece:
    interleaved = as_float(np.frombuffer(b"".join(parts), _DTYPES[form.sample_type]))
    mono = downmix(interleaved.reshape(-1, len(form.sent)), form.weights)
    rate = min(form.sample_rate, HIGHEST_RATE)
    samples = resample(mono, form.sample_rate, rate)
    usable = np.clip(np.nan_to_num(samples), -8, 8).astype(np.float32)
    return Piece(recording.name, read / form.sample_rate, usable, rate)
