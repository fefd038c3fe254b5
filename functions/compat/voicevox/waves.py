"""Joining several WAV files to one, as `POST /connect_waves` does."""

from __future__ import annotations

import base64
import io
import struct
import wave
from typing import TYPE_CHECKING, Any, Final

from shared.speech.results.statement import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WAVES = 128

_STATEMENTS: Final = (b"LIST", b"_PMX")
_SYNTHETIC: Final = DIGITAL_SOURCE_TYPE.encode()
_MOST_BEFORE: Final = 64 << 10  # the part of a file that is searched
_HEAD_BYTES, _FORMAT_END = 8, 36  # of a chunk; in the files that the module writes


class WavesError(Exception):
    pass


def connect_waves(encoded: Sequence[str]) -> tuple[bytes, bool]:
    """Join WAV files, each in base64; return the file, and whether it states synthetic speech.

    The statement is that of the first file that has one.
    """
    if not 1 <= len(encoded) <= MOST_WAVES:
        raise WavesError("wavファイルが含まれていません")
    parts = [_read(each) for each in encoded]
    parameters = parts[0][0]
    if any(other[:3] != parameters[:3] for other, _, _ in parts):
        raise WavesError("expected files of one sample rate, width and number of channels")
    joined = io.BytesIO()
    with wave.open(joined, "wb") as writer:
        writer.setparams(parameters)
        for _, frames, _ in parts:
            writer.writeframes(frames)
    marks = next((marks for _, _, marks in parts if marks), b"")
    wav = joined.getvalue()
    size = len(wav) + len(marks) - _HEAD_BYTES
    beginning = b"RIFF" + struct.pack("<I", size) + wav[8:_FORMAT_END]
    return beginning + marks + wav[_FORMAT_END:], bool(marks)


def _marks_in(wav: bytes) -> bytes:
    """Return the chunks with the statement; they come before the samples."""
    marks, begin = b"", 12
    while begin + _HEAD_BYTES <= min(len(wav), _MOST_BEFORE) and wav[begin : begin + 4] != b"data":
        (size,) = struct.unpack_from("<I", wav, begin + 4)
        end = begin + _HEAD_BYTES + size + size % 2
        if wav[begin : begin + 4] in _STATEMENTS and _SYNTHETIC in wav[begin:end]:
            marks += wav[begin:end]
        begin = end
    return marks


def _read(encoded: str) -> tuple[Any, bytes, bytes]:
    try:
        content = base64.b64decode(encoded, validate=True)
        with wave.open(io.BytesIO(content)) as reader:
            frames = reader.readframes(reader.getnframes())
            return reader.getparams(), frames, _marks_in(content)
    except (ValueError, RuntimeError, wave.Error, EOFError) as error:
        # The module seeks beyond a chunk that is cut off, which is a RuntimeError.
        raise WavesError("expected WAV files in base64, found others") from error
