"""Files that strangers might send, made by code, and what each must end in.

The same seeds give the same files. What a broken recording ends in may depend on the version of
FFmpeg's libraries, so that a group names all that is acceptable for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.voices.voice import ErrorCode
from tests.integration.audio.recordings import (
    FLAVOURS,
    raw_wav,
    recording,
    with_cover_art,
    with_video,
)
from tests.robustness.hostile import files
from tests.robustness.hostile.costliest import COSTLIEST
from tests.robustness.hostile.files import M4A, OGG, SECONDS, WEBM, box, good

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.robustness.hostile.watching import Lures

MAX_BYTES = 8_000_000
DONE = "done"

CORRUPT, NO_AUDIO = ErrorCode.CORRUPT, ErrorCode.NO_AUDIO
UNSUPPORTED, TOO_COMPLEX = ErrorCode.UNSUPPORTED_FORMAT, ErrorCode.TOO_COMPLEX
TOO_LONG, TOO_SHORT, SILENT = ErrorCode.TOO_LONG, ErrorCode.TOO_SHORT, ErrorCode.SILENT
TOO_LARGE = ErrorCode.TOO_LARGE
BROKEN = (CORRUPT, NO_AUDIO, UNSUPPORTED)
REFUSED = (*BROKEN, TOO_COMPLEX)

# From nearly nothing to nearly everything.
SHARES = (0.001, 0.05, 0.5, 0.99)
SEEDS = range(3)


@dataclass(frozen=True)
class Hostile:
    """One file; `ends` are `done`, or the codes of the errors that it may end in."""

    name: str
    make: Callable[[Lures], bytes]
    ends: tuple[str, ...]


def one(name: str, data: bytes | Callable[[], bytes], *ends: str) -> Hostile:
    """One file that refers to nothing."""
    return Hostile(name, lambda _: data() if callable(data) else data, ends)


def luring(
    name: str, make: Callable[[str], bytes], *ends: str, spellings: range = range(0, 20, 4)
) -> Iterator[Hostile]:
    """A file for each of some spellings of the address of something that it must not touch."""
    for number in spellings:

        def spelled(lures: Lures, number: int = number) -> bytes:
            return make(lures.addresses()[number])

        yield Hostile(f"{name}, spelling {number}", spelled, ends)


def _foreign() -> Iterator[Hostile]:
    contents = {
        "text": b"hello, this is text",
        "one byte": b"R",
        "ZIP": b"PK\x03\x04" + bytes(100),
        "AMR": b"#!AMR\n" + bytes(100),
        "AVI": b"RIFF\0\0\0\0AVI LIST" + bytes(100),
        "Wave64": b"riff\x2e\x91\xcf\x11" + bytes(100),
        "Vorbis without Ogg": b"\x01vorbis" + bytes(100),
    }
    return (one(name, content, UNSUPPORTED) for name, content in contents.items())


def _lists() -> Iterator[Hostile]:
    lists: dict[str, Callable[[str], str]] = {
        "m3u8 with a key": lambda url: (
            f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{url}"\n#EXTINF:1,\n{url}\n'
        ),
        "ffconcat": lambda url: f"ffconcat version 1.0\nfile '{url}'\n",
        "DASH": lambda url: (
            "<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><Period>"
            f"<BaseURL>{url}</BaseURL></Period></MPD>"
        ),
        "SDP": lambda _: "v=0\r\nc=IN IP4 127.0.0.1\r\nm=audio 1234 RTP/AVP 0\r\n",
    }
    for name, write in lists.items():

        def listed(lures: Lures, write: Callable[[str], str] = write) -> bytes:
            return "".join(map(write, lures.addresses())).encode()

        yield Hostile(name, listed, (UNSUPPORTED,))


MAGIC = {
    "matroska": b"\x1aE\xdf\xa3",
    "webm": files.element("1a45dfa3", files.element("4282", b"webm")),
    "mp4": b"\0\0\0\x20ftypisom",
    "ogg": b"OggS",
    "wav": b"RIFF\0\0\0\0WAVE",
    "rf64": b"RF64\xff\xff\xff\xffWAVE",
    "mp3": b"\xff\xfb\x90\x64",
    "id3": b"ID3\x04\0\0\0\0\0\0",
    "flac": b"fLaC",
    "adts": b"\xff\xf1\x50\x80",
}


def _magic() -> Iterator[Hostile]:
    fillings = {
        "nothing": b"",
        "zeros": bytes(20_000),
        "noise": np.random.default_rng(1).bytes(20_000),
        "a playlist": b"\n#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\nhttp://127.0.0.1/\n" * 99,
    }
    for magic, head in MAGIC.items():
        for name, filling in fillings.items():
            yield one(f"{magic}, then {name}", head + filling, *BROKEN)


def _addresses() -> Iterator[Hostile]:
    # The samples next to the index are decoded, whatever place it points to.
    yield from luring(
        "MP4 data reference",
        lambda url: files.with_data_reference(box(b"url ", bytes(4), url.encode() + b"\0")),
        DONE,
        spellings=range(20),
    )
    yield from luring("MP4 alias", files.alias_to, DONE, *BROKEN)
    yield from luring("QuickTime reference movie", files.reference_movie, *BROKEN)
    yield from luring(
        "MP4 with SDP in its user data",
        lambda url: good(M4A) + box(b"udta", box(b"hnti", box(b"sdp ", url.encode()))),
        DONE,
    )
    yield from luring("Matroska that continues elsewhere", files.matroska_that_names, DONE)
    yield from luring("ID3 with links", files.id3_that_names, DONE)
    yield from luring(
        "FLAC with a picture elsewhere",
        lambda url: files.flac_with_blocks((6, files.flac_picture(b"-->", url.encode()))),
        DONE,
    )
    yield from luring(
        "WAV with a list of addresses",
        lambda url: files.wav_with_chunk(
            b"LIST",
            b"INFOIURL" + struct.pack("<I", len(url)) + url.encode() + b"\0" * (len(url) % 2),
        ),
        DONE,
    )
    yield from luring("Ogg with addresses in its comments", _ogg_that_names, SILENT)


def _ogg_that_names(url: str) -> bytes:
    tags = files.opus_tags(f"CONTACT={url}", f"METADATA_BLOCK_PICTURE={url}", f"LOCATION={url}")
    return files.ogg_opus(files.opus_head(), tags)


def _cut() -> Iterator[Hostile]:
    for flavour in FLAVOURS:
        whole = good(flavour)
        for share in SHARES:
            part = whole[: max(1, int(share * len(whole)))]
            yield one(f"{flavour}, {share:.1%} of it", part, DONE, TOO_SHORT, *BROKEN)
    whole = good(M4A)
    yield one("MP4 without its index", whole[: whole.index(b"moov") - 4], CORRUPT)


def _damaged() -> Iterator[Hostile]:
    ends = (DONE, TOO_SHORT, TOO_LONG, SILENT, *REFUSED)
    for flavour in FLAVOURS:
        for seed in SEEDS:
            flipped, cut = (
                files.flipped(good(flavour), seed),
                files.without_a_piece(good(flavour), seed),
            )
            yield one(f"{flavour}, bits flipped, seed {seed}", flipped, *ends)
            yield one(f"{flavour}, a piece missing, seed {seed}", cut, *ends)


def _huge() -> Iterator[Hostile]:
    heads = {
        "EBML": b"\x1aE\xdf\xa3\x01" + b"\xff" * 7 + bytes(1000),
        "box of 2^63 bytes": struct.pack(">I4sQ", 1, b"ftyp", 2**63 - 1) + bytes(1000),
        "index of 2^32 bytes": files.FTYP + struct.pack(">I4s", 2**32 - 1, b"moov") + bytes(1000),
        "ID3": b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + bytes(1000),
        "FLAC picture": b"fLaC\x86\xff\xff\xff" + bytes(1000),
        "Opus comments": files.ogg_opus(files.opus_head(), files.opus_tags(declared=2**32 - 1)),
        "WAV format": b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\xff" + bytes(1000),
    }
    for name, head in heads.items():
        yield one(name, head, *REFUSED, SILENT)
    yield one("MP4 samples", files.huge_table(2**32 - 1, in_chunk=False), *REFUSED)
    for table in (b"stts", b"stsc", b"stsz", b"stco", b"stsd", b"elst", b"dref"):
        data = files.patched(table, 12 if table == b"stsz" else 8, 2**32 - 1)
        yield one(f"MP4 table {table!r}", data, DONE, *REFUSED)
    fragment = files.patched(b"trun", 8, 2**32 - 1, "fragmented mp4 from Safari or Chrome")
    yield one("MP4 fragment", fragment, DONE, *REFUSED)
    sound = files.pcm16(SECONDS, 48_000)
    yield one("WAV samples", raw_wav(sound, declared=2**32 - 1), DONE)
    yield one("RF64 samples", partial(files.rf64, 2**63), DONE, *REFUSED)
    yield one("FLAC samples", partial(files.with_flac_total, 2**36 - 1), DONE)
    for name in ("LIST", "id3 "):
        chunk = partial(files.wav_with_chunk, name.encode(), b"", 2**32 - 1)
        yield one(f"WAV chunk {name}", chunk, DONE, *REFUSED)


def _many() -> Iterator[Hostile]:
    many = 20_000
    yield one("Matroska tracks", partial(files.many_streams, many), *REFUSED)
    yield one("Ogg streams", partial(files.many_logical_streams, many), *REFUSED)
    for box_name in (b"trak", b"udta", b"moof"):
        yield one(f"MP4 {box_name!r}", partial(files.many_boxes, box_name, many), *REFUSED)
    for kind in ("chapters", "tags", "attachments", "cues", "seeks"):
        yield one(f"Matroska {kind}", partial(files.many_elements, kind, many), *REFUSED)
    comments = files.opus_tags(*["A=B"] * 6_000)
    yield one("Opus comments in a page", files.ogg_opus(files.opus_head(), comments), SILENT)
    blocks = partial(files.flac_with_blocks, *[(2, b"abcd")] * many)
    yield one("FLAC blocks", blocks, DONE, *REFUSED)
    yield one("MP4 boxes in each other", partial(files.nested_boxes, many), *REFUSED)
    yield one("Matroska elements in each other", partial(files.nested_elements, many), *REFUSED)
    empty = files.matroska(files.tracks(files.track(b"A_OPUS")), files.cluster(*[b""] * many))
    yield one("empty Matroska blocks", empty, *REFUSED)


def _pictures() -> Iterator[Hostile]:
    for film in (("webm", "libvpx", "libopus"), ("mp4", "libx264", "aac")):
        yield one(f"{film[0]} with {film[1]}", partial(with_video, *film, SECONDS), DONE)
    for flavour in ("mp3", "fragmented mp4 from Safari or Chrome"):
        yield one(f"{flavour} with cover art", partial(with_cover_art, FLAVOURS[flavour]), DONE)
    yield one("a film without sound", files.silent_film, NO_AUDIO)
    bomb = files.png_bomb(30_000)
    picture = files.flac_picture(b"image/png", bomb, width=30_000)
    yield one("FLAC, 900 million points", files.flac_with_blocks((6, picture)), DONE)
    cover = files.id3((b"APIC", b"\0image/png\0\3\0" + bomb))
    yield one("MP3, 900 million points", cover + good("mp3"), DONE)


def _bombs() -> Iterator[Hostile]:
    yield one("MP4 index, 1 GB", partial(files.compressed_index, 1024), *REFUSED)
    for algorithm, name in enumerate(("zlib", "bzlib", "lzo")):
        frames = partial(files.compressed_frames, 1024, algorithm)
        yield one(f"Matroska frame, 1 GB, {name}", frames, *REFUSED, SILENT, TOO_LONG)
    frames = partial(files.compressed_frames, 100, 0)
    yield one("Matroska frame, 100 MB, zlib", frames, *REFUSED, TOO_LONG)
    yield one("ID3 picture, 1 GB", partial(files.id3_bomb, 1024), DONE, *REFUSED)


def _hidden() -> Iterator[Hostile]:
    for packets in (200, 12_000):
        yield one(f"Opus, {packets} packets", partial(files.hidden_opus, packets), TOO_COMPLEX)
    for edits in (1_200, 20_000):
        yield one(f"MP4, {edits} edits", partial(files.edited_again_and_again, edits), TOO_COMPLEX)


def _silence() -> Iterator[Hostile]:
    yield one("45 minutes of FLAC", partial(files.flac_bomb, 2_000), TOO_LONG)
    yield one("1 hour of Opus", partial(files.opus_bomb, 3_600), TOO_LONG)
    sound = b"\x80" * (MAX_BYTES - 100)
    yield one("14 hours of 8-bit WAV", raw_wav(sound, sample_rate=160, bits=8), UNSUPPORTED)


def _samples() -> Iterator[Hostile]:
    for bits in (32, 64):
        for worst in ("nan", "-inf", "3e38"):
            for share in (1.0, 0.0):
                wav = files.float_wav(float(worst), bits=bits, share=share)
                yield one(f"float{bits} {worst}, {share:.0%} of them", wav, CORRUPT)
        yield one(f"float{bits} denormal", files.float_wav(1e-40, bits=bits), SILENT)
    yield one("float64 beyond float32", files.float_wav(1e300, bits=64), CORRUPT)


def _rates() -> Iterator[Hostile]:
    for rate in (0, 1, 7_999, 192_001, 4_000_000_000):
        sound = files.pcm16(SECONDS, 48_000)
        yield one(f"WAV at {rate} Hz", raw_wav(sound, sample_rate=rate), CORRUPT, UNSUPPORTED)
    for rate in (8_000, 192_000):
        wav = raw_wav(files.pcm16(SECONDS, rate), sample_rate=rate)
        yield one(f"WAV at {rate} Hz", wav, DONE)
    for said in ("nan", "-inf", "-1", "0", "0.5", "1e300"):
        data = files.pcm_matroska(rate=float(said))
        yield one(f"Matroska at {said} Hz", data, DONE, *BROKEN)
    for scale in (0, 1, 2**32 - 1):
        data = files.patched(b"mdhd", 16, scale)
        yield one(f"MP4 with {scale} ticks a second", data, DONE, TOO_SHORT, *BROKEN)


def _channels() -> Iterator[Hostile]:
    for channels in (0, 9, 65_535):
        sound = bytes(channels % 256 * 2 * 4_800)
        yield one(f"WAV with {channels} channels", raw_wav(sound, channels=channels), *BROKEN)
    # The costliest for its size that a search has found.
    wav = raw_wav(bytes(4_000_000), channels=65_535)
    yield one("WAV with 65535 channels in 4 MB", wav, *BROKEN)
    sound = files.pcm16(SECONDS, 16_000, 8)
    yield one("WAV with 8 channels", raw_wav(sound, sample_rate=16_000, channels=8), DONE)
    for channels in (0, 9, 255):
        data = files.pcm_matroska(channels=channels)
        yield one(f"Matroska with {channels} channels", data, DONE, *BROKEN)
        # Decoders of 255 channels take more memory than a recording may.
        head = files.opus_head(channels=channels, family=255)
        data = files.ogg_opus(head, files.opus_tags())
        yield one(f"Opus with {channels} channels", data, *REFUSED)


def _changes() -> Iterator[Hostile]:
    for flavour in ("mp3", "raw aac"):
        first = recording(flavour, 2)
        for name, then in (
            ("sample rate", recording(flavour, 2, 44_100)),
            ("channel count", recording(flavour, 2, channels=2)),
        ):
            yield one(f"{flavour}, another {name}", first + then, DONE)
    yield one("Ogg after Ogg", recording(OGG, 2) * 2, DONE)
    yield one("WebM after WebM", recording(WEBM, 2) * 2, DONE, CORRUPT)
    yield one("FLAC after MP3", recording("mp3", 2) + recording("flac", 2), DONE, CORRUPT)


def _codecs() -> Iterator[Hostile]:
    for code in (0x02, 0x50, 0x2000, 0xFFFF):
        wav = raw_wav(files.pcm16(SECONDS, 48_000), code=code)
        yield one(f"WAV with format {code:#06x}", wav, *BROKEN)
    for codec in (b"A_AC3", b"A_MS/ACM", b"V_VP9", b"A_NO"):
        data = files.matroska(files.tracks(files.track(codec)), files.cluster(bytes(99)))
        yield one(f"Matroska with {codec!r}", data, *BROKEN)


def _lengths() -> Iterator[Hostile]:
    yield one("nothing", b"", NO_AUDIO)
    yield one("8 MB and a byte", bytes(MAX_BYTES + 1), TOO_LARGE)
    yield one("no samples", raw_wav(b""), NO_AUDIO)
    yield one("zeros", raw_wav(bytes(192_000)), SILENT)
    yield one("half a second", recording("16-bit wav", 0.5), TOO_SHORT)
    yield one("eleven seconds", recording("16-bit wav", 11), TOO_LONG)


def _costliest() -> Iterator[Hostile]:
    return (one(name, make, *REFUSED) for name, make in COSTLIEST.items())


GROUPS: Final[Mapping[str, Callable[[], Iterator[Hostile]]]] = MappingProxyType(
    {
        "no recording: text, archives, other media": _foreign,
        "playlists, concat scripts, manifests and SDP with addresses": _lists,
        "a container's magic before zeros, noise, a playlist": _magic,
        "addresses inside of recordings": _addresses,
        "every container cut off": _cut,
        "every container with bits flipped or a piece missing": _damaged,
        "huge declared sizes, counts and lengths": _huge,
        "20 000 streams, boxes, tags, chapters; nesting": _many,
        "video with audio, pictures": _pictures,
        "decompression bombs": _bombs,
        "audio that the container hides": _hidden,
        "hours of silence in a few bytes": _silence,
        "samples that are no numbers or off the scale": _samples,
        "unusual sample rates": _rates,
        "unusual channel counts": _channels,
        "changes in the middle": _changes,
        "codecs that are not supported": _codecs,
        "empty, too large, silent, too short, too long": _lengths,
        "the costliest that searches have found": _costliest,
    }
)
