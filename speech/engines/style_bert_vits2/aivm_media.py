"""Pictures and sounds in an AIVMX file: data URLs, each with bounds."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_ICON_BYTES = 4 << 20
_MAX_SAMPLE_BYTES = 16 << 20

_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")
_SIGNATURES: Mapping[str, re.Pattern[bytes]] = {
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "audio/wav": re.compile(rb"RIFF....WAVE", re.DOTALL),
    "audio/mp4": re.compile(rb"....ftyp", re.DOTALL),
}
_SAME_TYPES: Mapping[str, str] = {"audio/x-wav": "audio/wav", "audio/m4a": "audio/mp4"}
_PICTURES = frozenset({"image/jpeg", "image/png"})
_SOUNDS = frozenset({"audio/wav", "audio/mp4"})


class AivmxError(ValueError):
    """A file that is no usable AIVMX voice; the message is one sentence that says why."""


@dataclass(frozen=True)
class MediaFile:
    """A picture or a sound of the file: its MIME type and its content."""

    content_type: str
    content: bytes


@dataclass(frozen=True)
class VoiceSample:
    """A recording of a style, and what is said in it."""

    sound: MediaFile
    transcript: str


@dataclass(frozen=True)
class StyleMedia:
    """The icon of a style, or None, and its samples."""

    icon: MediaFile | None
    samples: tuple[VoiceSample, ...]


def read_picture(url: str, what: str) -> MediaFile:
    """Read an icon from its data URL; `what` names it in an error.

    Raises:
        AivmxError: it is no picture, or too large.
    """
    return _data(url, what, _PICTURES, _MAX_ICON_BYTES)


def read_sound(url: str, what: str) -> MediaFile:
    """Read a sample from its data URL; `what` names it in an error.

    Raises:
        AivmxError: it is no sound, or too large.
    """
    return _data(url, what, _SOUNDS, _MAX_SAMPLE_BYTES)


def _data(url: str, what: str, types: frozenset[str], most: int) -> MediaFile:
    expected = f"aivm_manifest: {what}: expected a data URL of {' or '.join(sorted(types))}"
    found = _DATA_URL.match(url)
    kind = _SAME_TYPES.get(found[1], found[1]) if found else None
    if found is None or kind not in types:
        raise AivmxError(f"{expected}, found another.")
    if len(url) - found.end() > -(-most // 3) * 4:
        raise AivmxError(f"{expected} of at most {most} bytes, found more.")
    try:
        content = base64.b64decode(url[found.end() :], validate=True)
    except binascii.Error as error:
        raise AivmxError(f"{expected}, found one that is not base64.") from error
    if not _SIGNATURES[kind].match(content):
        raise AivmxError(f"{expected}, found content of another type.")
    return MediaFile(kind, content)
