"""The parts of a recording's file: what stands before it, what was joined to it, what is damaged.

Nothing is decoded here. FFmpeg reads one clean file at a time; it stops, or worse, where another
file was appended whose channels or rate differ, and loses the rest of a damaged Matroska cluster.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from shared.voices.media import Container, find_stream
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_LINKS: Final = 64

# The first pages of Ogg streams, RFC 3533; RIFF; FLAC's marker with its first block, RFC 9639; the
# header of EBML with its type of document, RFC 8794.
_BEGINNINGS: Final = {
    Container.OGG: re.compile(rb"OggS\0[\2\3\6\7]"),
    Container.WAV: re.compile(rb"R(?:IFF|F64).{4}WAVE", re.DOTALL),
    Container.FLAC: re.compile(rb"fLaC[\0\x80]\0\0\x22"),
    Container.MP4: re.compile(rb".{4}ftyp", re.DOTALL),
    Container.WEBM: re.compile(rb"\x1aE\xdf\xa3.{1,60}?\x42\x82", re.DOTALL),
}
_BEGINNINGS[Container.MATROSKA] = _BEGINNINGS[Container.WEBM]
# Files of plain frames are told apart only by the tag in front of them, https://id3.org.
_BEGINNINGS[Container.MP3] = _BEGINNINGS[Container.ADTS] = re.compile(
    rb"ID3[\2-\4]\0[\0-\xff][\0-\x7f]{4}"
)
_PLAIN_FRAMES: Final = frozenset({Container.MP3, Container.ADTS})
_LAST_TAG_BYTES: Final = 128


def split_links(data: bytes, container: Container) -> Iterator[bytes]:
    """Yield each of the files that were joined to this one; `too_complex` if they are many."""
    begins = list(_find_begins(data, container))
    if begins == [0]:
        yield data
        return
    for begin, end in zip(begins, [*begins[1:], len(data)], strict=True):
        tag = max(begin, end - _LAST_TAG_BYTES)
        has_tag = container in _PLAIN_FRAMES and data.startswith(b"TAG", tag)
        yield data[begin : tag if has_tag else end]


def begins_another_link(piece: bytes, container: Container) -> bool:
    """Return whether another file may begin in a piece that is not the first."""
    pattern = _BEGINNINGS.get(container)
    return pattern is not None and pattern.search(piece) is not None


def _find_begins(data: bytes, container: Container) -> Iterator[int]:
    first = find_stream(data)
    yield first
    if (pattern := _BEGINNINGS.get(container)) is None:
        return
    count, joined_at = 1, end_of_beginning(data, first, container)
    for match in pattern.finditer(data, joined_at):
        begin = match.start()
        if begin < joined_at:
            continue
        if container is Container.MP4 and not is_box_of_file(data, first, begin):
            continue
        # Several tags may stand before one file, and several streams begin together.
        is_new = begin > joined_at or container not in _PLAIN_FRAMES | {Container.OGG}
        joined_at = end_of_beginning(data, begin, container)
        if is_new:
            count += 1
            if count > _MOST_LINKS and container in _PLAIN_FRAMES:
                return  # they can be decoded together
            if count > _MOST_LINKS:
                raise VoiceError(
                    ErrorCode.TOO_COMPLEX,
                    "The recording is joined from too many others; save it again as one.",
                )
            yield begin


def end_of_beginning(data: bytes, begin: int, container: Container) -> int:
    """Return the place up to which everything belongs to a file that begins here."""
    if container is Container.OGG:
        # The first pages of streams that are played together follow each other.
        segments = data[begin + 26 : begin + 27]
        count = segments[0] if segments else 0
        return begin + 27 + count + sum(data[begin + 27 : begin + 27 + count])
    if container in _PLAIN_FRAMES and data.startswith(b"ID3", begin):
        size = 0
        for byte in data[begin + 6 : begin + 10]:
            size = size << 7 | byte & 0x7F
        return begin + 10 + size
    if container is Container.WAV:
        # A file of unknown length has the largest sizes.
        size = int.from_bytes(data[begin + 4 : begin + 8], "little")
        return begin + 8 + size if begin + 8 + size <= len(data) else begin + 8
    return begin if container in _PLAIN_FRAMES else begin + 8


def is_box_of_file(data: bytes, begin: int, place: int) -> bool:
    """Return whether a box of an MP4 file begins at a place, and is not in another box."""
    while begin < place:
        size = int.from_bytes(data[begin : begin + 4], "big")
        if size == 1:
            size = int.from_bytes(data[begin + 8 : begin + 16], "big")
        if size < 8:  # noqa: PLR2004 - a box's header
            return False
        begin += size
    return begin == place


_SIZE_OF_UNKNOWN: Final = 0x7F000000
_WAV_HEADER: Final = 65_536


def wav_seconds(data: bytes) -> float:
    """Return the length in a WAV file's header; 0 if it is unknown."""
    form, sound = data.find(b"fmt ", 12, _WAV_HEADER), data.find(b"data", 12, _WAV_HEADER)
    if min(form, sound) < 0 or len(data) < max(form + 20, sound + 8):
        return 0.0
    (per_second,) = struct.unpack_from("<I", data, form + 16)
    (size,) = struct.unpack_from("<I", data, sound + 4)
    return size / per_second if per_second and size < _SIZE_OF_UNKNOWN else 0.0


_SEGMENT: Final = b"\x18\x53\x80\x67"
_CLUSTER: Final = b"\x1f\x43\xb6\x75"
_UNKNOWN_SIZE: Final = b"\x01" + b"\xff" * 7
_BLOCKS: Final = frozenset({b"\xa3", b"\xa0"})
_LEAST_BLOCK: Final = 4
# The elements of segments and clusters, RFC 9559.
_ELEMENTS: Final = _BLOCKS | {
    *(_CLUSTER, b"\xe7", b"\xa7", b"\xab", b"\xaf", b"\x58\x54", b"\xec", b"\xbf"),
    *(b"\x11\x4d\x9b\x74", b"\x15\x49\xa9\x66", b"\x16\x54\xae\x6b", b"\x1c\x53\xbb\x6b"),
    *(b"\x12\x54\xc3\x67", b"\x10\x43\xa7\x70", b"\x19\x41\xa4\x69"),
}
_MAYBE_BLOCK: Final = re.compile(rb"[\xa3\xa0]|\x1f\x43\xb6\x75")
_CHAIN: Final = 3  # as many elements that fit behind each other are no chance


class _Element(NamedTuple):
    name: bytes
    content: int
    end: int


def mend_matroska(data: bytes) -> tuple[bytes, bool]:
    """Cut out what is no element; return the file, and whether it was damaged or cut off."""
    segment = data.find(_SEGMENT, 0, 4096)
    first = data.find(_CLUSTER)
    if segment < 0 or first < segment:
        return data, False
    after = segment + len(_SEGMENT)
    # The segment and its clusters get no sizes, which would be wrong.
    view = memoryview(data)
    pieces: list[bytes | memoryview] = [
        view[:after],
        _UNKNOWN_SIZE,
        view[after + 9 - data[after].bit_length() : first],
    ]
    begin = place = first
    is_damaged = False
    while place < len(data):
        element = read_element(data, place)
        if element is None or element.end > len(data):
            is_damaged = True
            pieces.append(view[begin:place])
            begin = place = next_chain(data, place + 1)
        elif element.name == _CLUSTER:
            pieces += [view[begin:place], _CLUSTER, _UNKNOWN_SIZE]
            begin = place = element.content
        else:
            place = element.end
    return (b"".join([*pieces, view[begin:place]]), True) if is_damaged else (data, False)


def read_element(data: bytes, place: int) -> _Element | None:
    lead = data[place]
    width = 1 if lead & 0x80 else 2 if lead & 0x40 else 4 if lead & 0xF0 == 0x10 else 0  # noqa: PLR2004
    name = data[place : place + width]
    at = place + width
    if name not in _ELEMENTS or at >= len(data):
        return None
    length = 9 - data[at].bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ~(1 << 7 * length)
    content = at + length
    is_unknown = size == (1 << 7 * length) - 1
    if (is_unknown and name != _CLUSTER) or (name in _BLOCKS and size < _LEAST_BLOCK):
        return None
    return _Element(name, content, content if is_unknown or name == _CLUSTER else content + size)


def next_chain(data: bytes, place: int) -> int:
    for match in _MAYBE_BLOCK.finditer(data, place):
        at = match.start()
        for _ in range(_CHAIN):
            element = read_element(data, at) if at < len(data) else None
            if element is None or element.end > len(data):
                break
            at = element.end
        else:
            return match.start()
        if at == len(data):
            return match.start()
    return len(data)
