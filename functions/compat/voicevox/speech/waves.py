"""Joining several WAV files to one, as `POST /connect_waves` does."""

from __future__ import annotations

import base64
import io
import wave
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WAVES = 128


class WavesError(Exception):
    """Files that cannot be joined; one sentence."""


def connect_waves(encoded: Sequence[str]) -> bytes:
    """Join WAV files, each in base64, one after the other.

    Raises:
        WavesError: there is none, one is no WAV file, or they differ in rate, width or channels.
    """
    if not 1 <= len(encoded) <= MOST_WAVES:
        raise WavesError("wavファイルが含まれていません")
    parts = [_read(each) for each in encoded]
    parameters = parts[0][0]
    if any(other[:3] != parameters[:3] for other, _ in parts):
        raise WavesError("expected files of one sample rate, width and number of channels")
    joined = io.BytesIO()
    with wave.open(joined, "wb") as writer:
        writer.setparams(parameters)
        for _, frames in parts:
            writer.writeframes(frames)
    return joined.getvalue()


def _read(encoded: str) -> tuple[Any, bytes]:
    try:
        with wave.open(io.BytesIO(base64.b64decode(encoded, validate=True))) as reader:
            return reader.getparams(), reader.readframes(reader.getnframes())
    except (ValueError, RuntimeError, wave.Error, EOFError) as error:
        # The module seeks beyond a chunk that is cut off, which is a RuntimeError.
        raise WavesError("expected WAV files in base64, found others") from error
