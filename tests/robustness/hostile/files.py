"""Writes files that no recorder writes, byte by byte.

The names of boxes, elements and chunks are those of the formats' descriptions: ISO/IEC 14496-12 and
Apple's QuickTime File Format for MP4, RFC 8794 and 9559 for Matroska, RFC 3533, 7845 and 9639 for
Ogg, Opus and FLAC, id3.org for ID3.
"""

from __future__ import annotations

import io
import struct
import zlib
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import av
import numpy as np

from tests.integration.audio.recordings import pictures, raw_wav, recording, voice_like

if TYPE_CHECKING:
    from collections.abc import Sequence


def box(name: bytes, *content: bytes) -> bytes:
    joined = b"".join(content)
    return struct.pack(">I4s", 8 + len(joined), name) + joined


SECONDS = 1.2
FTYP = box(b"ftyp", b"isom", bytes(4), b"isom")
M4A = "m4a file"
WEBM = "webm from Chrome or Firefox"
OGG = "ogg opus from Firefox"


@cache
def good(flavour: str) -> bytes:
    return recording(flavour, SECONDS)


def deflated_zeros(count: int) -> bytes:
    """A zlib stream (RFC 1950) of so many MiB of zeros, made without compressing them all."""
    packer = zlib.compressobj(9)
    first = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush the compressor begins anew, so that all the blocks are the same.
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, wbits=-15).flush()
    # Adler-32 of zeros: the low half stays 1, the high half counts them.
    checksum = ((count << 20) % 65_521) << 16 | 1
    return first + block * (count - 1) + last + checksum.to_bytes(4, "big")


# --- damage ---------------------------------------------------------------------------------------


def flipped(data: bytes, seed: int, *, bits: int = 24) -> bytes:
    """Some bits changed; half of them in the first 512 bytes, where headers are."""
    random = np.random.default_rng(seed)
    changed = bytearray(data)
    ends = [len(data) if number % 2 else min(512, len(data)) for number in range(bits)]
    for end in ends:
        changed[int(random.integers(end))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def without_a_piece(data: bytes, seed: int) -> bytes:
    random = np.random.default_rng(seed)
    at = int(random.integers(len(data)))
    return data[:at] + data[at + int(random.integers(1, len(data) // 10)) :]


# --- WAV ------------------------------------------------------------------------------------------


def pcm16(seconds: float, sample_rate: int, channels: int = 1) -> bytes:
    """Voice-like sound, int16, the same in every channel."""
    samples = (voice_like(seconds, sample_rate) * 32767).astype("<i2")
    return np.repeat(samples, channels).tobytes()


def float_wav(worst: float, *, bits: int = 32, share: float = 1.0) -> bytes:
    samples = voice_like(SECONDS, 48_000).astype("<f4" if bits == 32 else "<f8")
    samples[: max(1, int(share * len(samples)))] = worst
    return raw_wav(samples.tobytes(), bits=bits, code=3)


def wav_with_chunk(name: bytes, content: bytes, declared: int | None = None) -> bytes:
    whole = raw_wav(pcm16(SECONDS, 16_000), sample_rate=16_000)
    size = len(content) if declared is None else declared
    return whole[:12] + struct.pack("<4sI", name, size) + content + whole[12:]


def rf64(size: int) -> bytes:
    whole = raw_wav(pcm16(SECONDS, 16_000), sample_rate=16_000, declared=2**32 - 1)
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, size, size, size, 0)
    return b"RF64" + whole[4:12] + sizes + whole[12:]


# --- MP4 ------------------------------------------------------------------------------------------


def patched(name: bytes, place: int, number: int, flavour: str = M4A) -> bytes:
    """MP4 with another 32-bit number behind the name of one of its boxes."""
    data = bytearray(good(flavour))
    struct.pack_into(">I", data, data.index(name) + place, number)
    return bytes(data)


def many_boxes(name: bytes, count: int) -> bytes:
    return FTYP + box(b"moov", box(name) * count)


def nested_boxes(depth: int) -> bytes:
    sizes = range(8 * depth, 0, -8)
    return FTYP + box(b"moov", *(struct.pack(">I4s", size, b"trak") for size in sizes))


def compressed_index(mebibytes: int) -> bytes:
    """MP4 whose index is nothing but zeros, compressed a thousand times (QuickTime, `cmov`)."""
    packed, size = deflated_zeros(mebibytes), mebibytes << 20
    method = box(b"dcom", b"zlib")
    return FTYP + box(b"moov", box(b"cmov", method, box(b"cmvd", struct.pack(">I", size), packed)))


def alias_to(path: str) -> bytes:
    """MP4 whose samples lie in another file, as QuickTime's alias record names it."""
    name = path.rpartition("/")[2].encode()[:27]
    record = bytes(10) + bytes([len(name)]) + name.ljust(27, b"\0") + bytes(102)
    # Tag 2 holds the absolute path, tag 0 the folder.
    tag = struct.pack(">HH", 2, len(path)) + path.encode() + b"\0" * (len(path) % 2)
    entry = box(b"alis", bytes(4), record, tag, struct.pack(">hH", -1, 0))
    return with_data_reference(entry)


def with_data_reference(entry: bytes) -> bytes:
    around = (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref")
    return replace_box(good(M4A), box(b"url ", bytes([0, 0, 0, 1])), entry, around)


def reference_movie(url: str) -> bytes:
    reference = box(b"rdrf", bytes(4), b"url ", struct.pack(">I", len(url)), url.encode())
    return FTYP + box(b"moov", box(b"rmra", box(b"rmda", reference)))


def silent_film() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        container.mux(list(pictures(container, "libx264", 30)))
    return file.getvalue()


def replace_box(data: bytes, old: bytes, new: bytes, around: Sequence[bytes]) -> bytes:
    """Replace `old` in an MP4 file and correct the sizes of the boxes `around` it."""
    at = data.index(old)
    grown = bytearray(data[:at] + new + data[at + len(old) :])
    for name in around:
        start = grown.index(name) - 4
        (size,) = struct.unpack_from(">I", grown, start)
        struct.pack_into(">I", grown, start, size + len(new) - len(old))
    return bytes(grown)


def edited_again_and_again(edits: int) -> bytes:
    """MP4 whose edit list plays one millisecond of the same place, again and again."""
    data = recording(M4A)
    start = data.index(b"elst") - 4
    (size,) = struct.unpack_from(">I", data, start)
    edit = struct.pack(">IiHH", 1, 30_000, 1, 0)
    edit_list = box(b"elst", struct.pack(">II", 0, edits), edit * edits)
    return replace_box(data, data[start : start + size], edit_list, (b"moov", b"trak", b"edts"))


def huge_table(samples: int, *, in_chunk: bool = True) -> bytes:
    """MP4 whose table says that there are so many samples of one byte each."""
    data = recording(M4A)
    at = data.index(b"stsz") + 4
    data = data[:at] + struct.pack(">III", 0, 1, samples) + data[at + 12 :]
    at = data.index(b"stsc") + 4
    chunk = struct.pack(">IIIII", 0, 1, 1, samples, 1)
    return data[:at] + chunk + data[at + 20 :] if in_chunk else data


# --- Matroska -------------------------------------------------------------------------------------


def element(name: str, *content: bytes) -> bytes:
    """One EBML element, `name` in hexadecimal digits."""
    joined = b"".join(content)
    return bytes.fromhex(name) + (len(joined) | 1 << 56).to_bytes(8, "big") + joined


def matroska(*segment: bytes, doctype: bytes = b"webm") -> bytes:
    head = element("1a45dfa3", element("4282", doctype))
    return head + bytes.fromhex("18538067 01ffffffffffffff") + b"".join(segment)


def track(
    codec: bytes,
    *,
    rate: float = 48_000.0,
    channels: int = 1,
    number: int = 1,
    in_sound: bytes = b"",
    more: bytes = b"",
) -> bytes:
    says = element("b5", struct.pack(">d", rate)) + element("9f", bytes([channels])) + in_sound
    numbers = element("d7", number.to_bytes(3, "big")) + element("73c5", b"\1")
    kind = element("83", b"\2") + element("86", codec)
    return element("ae", numbers, kind, element("e1", says), more)


def tracks(*entries: bytes) -> bytes:
    return element("1654ae6b", *entries)


def cluster(*blocks: bytes) -> bytes:
    simple = (
        element("a3", b"\x81" + struct.pack(">hB", n % 30_000, 128), b)
        for n, b in enumerate(blocks)
    )
    return element("1f43b675", element("e7", b"\0"), *simple)


def many_streams(count: int) -> bytes:
    """Matroska that declares `count` audio tracks and holds no sound."""
    return matroska(tracks(*(track(b"A_OPUS", number=n) for n in range(1, count + 1))))


def hidden_opus(packets: int) -> bytes:
    """WebM of Opus packets of 120 ms in 62 bytes each; the container has all of it discarded.

    DiscardPadding (RFC 9559, section 5.1.3.5.7) is in nanoseconds.
    """
    noise = np.random.default_rng(1).integers(0, 256, (packets, 60), dtype=np.uint8)
    # Six frames of 20 ms in stereo, all of the same size (RFC 6716, section 3.2.5).
    toc = bytes([31 << 3 | 1 << 2 | 3, 6])
    hidden = element("75a2", (120_000_000).to_bytes(4, "big"))
    groups = (
        element("a0", element("a1", b"\x81\0\0\0", toc, each.tobytes()), hidden) for each in noise
    )
    head = element("63a2", opus_head(channels=2))
    entry = track(b"A_OPUS", channels=2, more=head)
    return matroska(tracks(entry), element("1f43b675", element("e7", b"\0"), *groups))


def opus_bomb(seconds: int) -> bytes:
    """WebM in which every packet is one byte long and 60 ms of silence (RFC 6716, section 3.1)."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm", options={"live": "1"}) as container:
        stream = container.add_stream("libopus", rate=48_000, layout="mono")
        stream.codec_context.open()
        for number in range(seconds * 1000 // 60):
            packet = av.Packet(bytes([3 << 3]))
            packet.stream = stream
            packet.pts = packet.dts = number * 60
            packet.time_base = Fraction(1, 1000)
            container.mux(packet)
    return file.getvalue()


def pcm_matroska(*, rate: float = 48_000.0, channels: int = 1) -> bytes:
    """16-bit samples in Matroska, which says what rate and how many channels they have."""
    depth = element("6264", b"\x10")
    entry = track(b"A_PCM/INT/LIT", rate=rate, channels=channels, in_sound=depth)
    return matroska(tracks(entry), cluster(pcm16(SECONDS, 48_000)), doctype=b"matroska")


def compressed_frames(mebibytes: int, algorithm: int) -> bytes:
    """Matroska whose one frame is zeros, said to be compressed by 0 zlib, 1 bzlib, 2 lzo."""
    packed = deflated_zeros(mebibytes)
    compression = element("5034", element("4254", bytes([algorithm])))
    encodings = element("6d80", element("6240", compression))
    entry = track(b"A_PCM/INT/LIT", more=encodings)
    return matroska(tracks(entry), cluster(packed), doctype=b"matroska")


def nested_elements(depth: int) -> bytes:
    sizes = range(10 * (depth - 1), -1, -10)
    heads = (b"\x67\xc8" + (size | 1 << 56).to_bytes(8, "big") for size in sizes)
    return matroska(element("1254c367", element("7373", *heads)))


def many_elements(kind: str, count: int) -> bytes:
    kinds = {
        "chapters": ("1043a770", element("45b9", element("b6", element("91", b"\1")) * count)),
        "tags": ("1254c367", element("7373", element("67c8", element("45a3", b"x"))) * count),
        "attachments": ("1941a469", element("61a7", element("466e", b"x")) * count),
        "cues": ("1c53bb6b", element("bb", element("b3", b"\1"), element("b7")) * count),
        "seeks": ("114d9b74", element("4dbb", element("53ab", b"\xec")) * count),
    }
    name, content = kinds[kind]
    return matroska(element(name, content), tracks(track(b"A_OPUS")))


def matroska_that_names(url: str) -> bytes:
    """Matroska that calls another file its continuation and attaches another by its address."""
    info = element(
        "1549a966",
        element("3c83ab", url.encode()),
        element("3eb923", bytes(16)),
        element("3e83bb", url.encode()),
    )
    tag = element("67c8", element("45a3", b"URL"), element("4487", url.encode()))
    attachment = element("61a7", element("466e", url.encode()), element("4660", b"text/uri-list"))
    whole = good(WEBM)
    at = whole.index(bytes.fromhex("1549a966"))
    extras = info + element("1254c367", element("7373", tag)) + element("1941a469", attachment)
    return whole[:at] + extras + whole[at:]


# --- Ogg ------------------------------------------------------------------------------------------


def ogg_page(packet: bytes, *, serial: int = 1, number: int = 0, flags: int = 0) -> bytes:
    full, last = divmod(len(packet), 255)
    if full > 254:
        raise ValueError("the packet does not fit one page")
    lacing = bytes([255] * full + [last])
    head = struct.pack("<4sBBQIII", b"OggS", 0, flags, 0, serial, number, 0)
    page = bytearray(head + bytes([len(lacing)]) + lacing + packet)
    struct.pack_into("<I", page, 22, _crc(page, 32, 0x04C11DB7))
    return bytes(page)


@cache
def _crc_table(width: int, polynomial: int) -> tuple[int, ...]:
    table = []
    for byte in range(256):
        remainder = byte << (width - 8)
        for _ in range(8):
            carry = remainder >> (width - 1) & 1
            remainder = (remainder << 1 & ((1 << width) - 1)) ^ (polynomial if carry else 0)
        table.append(remainder)
    return tuple(table)


def _crc(data: bytes | bytearray, width: int, polynomial: int) -> int:
    table, value = _crc_table(width, polynomial), 0
    for byte in data:
        value = (value << 8 & ((1 << width) - 1)) ^ table[value >> (width - 8) ^ byte]
    return value


def opus_head(*, channels: int = 1, family: int = 0, rate: int = 48_000) -> bytes:
    mapping = bytes([channels, 0, *range(channels)]) if family else b""
    return struct.pack("<8sBBHIhB", b"OpusHead", 1, channels, 0, rate, 0, family) + mapping


def opus_tags(*comments: str, declared: int | None = None) -> bytes:
    count = len(comments) if declared is None else declared
    texts = b"".join(struct.pack("<I", len(each)) + each.encode() for each in comments)
    return b"OpusTags" + struct.pack("<II", 0, count) + texts


def ogg_opus(head: bytes, tags: bytes, *, packets: int = 60) -> bytes:
    """Opus in Ogg: its two headers, then packets of silence."""
    first = [ogg_page(head, flags=2), ogg_page(tags, number=1)]
    return b"".join(
        first + [ogg_page(bytes([3 << 3]), number=n + 2) for n in range(packets)],
    )


def many_logical_streams(count: int) -> bytes:
    head = opus_head()
    return b"".join(ogg_page(head, serial=number, flags=2) for number in range(count))


# --- ID3 and FLAC ---------------------------------------------------------------------------------


def id3(*frames: tuple[bytes, bytes], flags: int = 0) -> bytes:
    """An ID3 tag, version 2.3, with frames of a name and a content each."""
    body = b"".join(
        name + struct.pack(">IH", len(content), flags) + content for name, content in frames
    )
    size = bytes((len(body) >> shift) & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\3\0\0" + size + body


def id3_that_names(url: str) -> bytes:
    """MP3 whose tag gives addresses for a picture, a page and another file (`-->` is a link)."""
    address = url.encode()
    tag = id3(
        (b"APIC", b"\0-->\0\3\0" + address),
        (b"WXXX", b"\0\0" + address),
        (b"WOAF", address),
        (b"LINK", b"APIC" + address + b"\0"),
    )
    return tag + good("mp3")


def id3_bomb(mebibytes: int) -> bytes:
    """MP3 with a picture in its tag that is nothing but zeros, compressed."""
    packed = struct.pack(">I", mebibytes << 20) + deflated_zeros(mebibytes)
    return id3((b"APIC", packed), flags=0x0080) + good("mp3")


def flac_with_blocks(*blocks: tuple[int, bytes]) -> bytes:
    whole = good("flac")
    extra = b"".join(
        bytes([kind]) + len(content).to_bytes(3, "big") + content for kind, content in blocks
    )
    first = 4 + 4 + 34
    # No block may be the last before the extra ones are over.
    return whole[:4] + bytes([0]) + whole[5:first] + extra + whole[first:]


def flac_picture(mime: bytes, content: bytes, *, width: int = 1) -> bytes:
    """A picture block; the mime type `-->` says that the content is an address."""
    numbers = struct.pack(">IIII", width, width, 24, 0)
    texts = struct.pack(">II", 3, len(mime)) + mime + struct.pack(">I", 0)
    return texts + numbers + struct.pack(">I", len(content)) + content


def png_bomb(side: int) -> bytes:
    """A picture of side times side black points, which compresses to next to nothing."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1 + 3 * side) * 64, 9)
    file = b"\x89PNG\r\n\x1a\n"
    for name, content in ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(name + content))
        file += struct.pack(">I", len(content)) + name + content + checksum
    return file


def flac_bomb(blocks: int) -> bytes:
    """FLAC in which every 15 bytes are 65535 samples of silence: 1.4 s at 48 kHz each.

    The frames follow the format's description (RFC 9639, section 9): constant subframes.
    """
    info = struct.pack(">HH3s3s", 65_535, 65_535, bytes(3), bytes(3))
    # 20 bits of sample rate, 3 of channels - 1, 5 of bits - 1, 36 of total samples (unknown)
    info += ((48_000 << 44) | (0 << 41) | (15 << 36)).to_bytes(8, "big") + bytes(16)
    file = bytearray(b"fLaC" + bytes([0x80, 0, 0, len(info)]) + info)
    for number in range(blocks):
        header = bytes([0xFF, 0xF8, 0x7A, 0x08]) + chr(number).encode() + b"\xff\xfe"
        header += bytes([_crc(header, 8, 0x07)])
        frame = header + bytes([0x00, 0x00, 0x01])
        file += frame + _crc(frame, 16, 0x8005).to_bytes(2, "big")
    return bytes(file)


def with_flac_total(total: int) -> bytes:
    data = bytearray(good("flac"))
    fields = int.from_bytes(data[18:26], "big") & ~((1 << 36) - 1)
    data[18:26] = (fields | total).to_bytes(8, "big")
    return bytes(data)
