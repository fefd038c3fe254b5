"""Files that strangers might send, made by code, and what each must end in.

The same seeds give the same files. What a broken recording ends in may depend on the version of
FFmpeg's libraries, so that a group names all that is acceptable for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from shared.voices.voice import ErrorCode
from tests.integration.audio.recordings import (
    FLAVOURS,
    box,
    edited_again_and_again,
    endless_table,
    flac_bomb,
    hidden_opus,
    many_streams,
    opus_bomb,
    raw_wav,
    recording,
    with_cover_art,
    with_video,
)
from tests.robustness.hostile import files
from tests.robustness.hostile.costliest import COSTLIEST
from tests.robustness.hostile.files import M4A, OGG, SECONDS, WEBM, good

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.robustness.hostile.watching import Lures

MAX_BYTES = 8_000_000
DONE = "done"

CORRUPT, NO_AUDIO = ErrorCode.CORRUPT, ErrorCode.NO_AUDIO
UNSUPPORTED, TOO_COMPLEX = ErrorCode.UNSUPPORTED_FORMAT, ErrorCode.TOO_COMPLEX
TOO_LONG, TOO_SHORT, SILENT = ErrorCode.TOO_LONG, ErrorCode.TOO_SHORT, ErrorCode.SILENT
TOO_LARGE = ErrorCode.TOO_LARGE
BROKEN = (CORRUPT, NO_AUDIO, UNSUPPORTED)

# From nearly nothing to nearly everything.
SHARES = (0.001, 0.01, 0.05, 0.1, 0.5, 0.9, 0.99)
SEEDS = range(6)


@dataclass(frozen=True)
class Hostile:
    """One file.

    Attributes:
        ends: `done`, or the codes of the errors that it may end in.
    """

    name: str
    make: Callable[[Lures], bytes]
    ends: frozenset[str]


@dataclass(frozen=True)
class Group:
    """Files of one kind; `title` is its row in the README."""

    title: str
    files: tuple[Hostile, ...]

    @property
    def ends(self) -> list[str]:
        """Everything that files of this group may end in."""
        return sorted({str(end) for file in self.files for end in file.ends})


def one(name: str, data: bytes | Callable[[], bytes], *ends: str) -> Hostile:
    """One file that refers to nothing."""
    return Hostile(name, lambda _: data() if callable(data) else data, frozenset(ends))


def luring(name: str, make: Callable[[str], bytes], *ends: str) -> Iterator[Hostile]:
    """A file for every address of something that it must not touch."""
    # The number of spellings does not depend on what they spell.
    for number in range(SPELLINGS):
        yield Hostile(
            f"{name}, spelling {number}", partial(_spelled, make, number), frozenset(ends)
        )


SPELLINGS = 20


def _spelled(make: Callable[[str], bytes], number: int, lures: Lures) -> bytes:
    return make(lures.addresses()[number])


def groups() -> tuple[Group, ...]:
    """The whole corpus."""
    return (
        Group("no recording: text, pictures, archives, other media", tuple(_foreign())),
        Group("playlists, concat scripts, manifests and SDP with addresses", tuple(_lists())),
        Group("zero bytes", (one("nothing", b"", NO_AUDIO),)),
        Group(
            "more bytes than allowed", (one("8 MB and a byte", bytes(MAX_BYTES + 1), TOO_LARGE),)
        ),
        Group("a container's magic before zeros, ones, noise, a playlist", tuple(_magic())),
        Group("addresses inside of recordings", tuple(_addresses())),
        Group("every container cut off", tuple(_cut())),
        Group("every container with bits flipped or a piece missing", tuple(_damaged())),
        Group("huge declared sizes, counts and lengths", tuple(_huge())),
        Group("100 000 streams, boxes, tags, chapters; nesting", tuple(_many())),
        Group("video with audio, pictures", tuple(_pictures())),
        Group("decompression bombs", tuple(_bombs())),
        Group("audio that the container hides", tuple(_hidden())),
        Group("hours of silence in a few bytes", tuple(_silence())),
        Group("samples that are no numbers or off the scale", tuple(_samples())),
        Group("unusual sample rates", tuple(_rates())),
        Group("unusual channel counts", tuple(_channels())),
        Group("changes in the middle", tuple(_changes())),
        Group("codecs that are not supported", tuple(_codecs())),
        Group("silent, too short, too long", tuple(_lengths())),
        Group("the costliest that searches have found", tuple(_costliest())),
    )


def _foreign() -> Iterator[Hostile]:
    contents = {
        "text": b"hello, this is text",
        "zeros": bytes(1000),
        "one byte": b"R",
        "HTML": b"<!doctype html><title>no</title>" * 50,
        "PNG": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "GIF": b"GIF89a" + bytes(100),
        "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "ZIP": b"PK\x03\x04" + bytes(100),
        "gzip": b"\x1f\x8b\x08" + bytes(100),
        "program": b"\x7fELF\x02\x01\x01" + bytes(100),
        "pickle": b"\x80\x04\x95" + bytes(100),
        "AMR": b"#!AMR\n" + bytes(100),
        "AVI": b"RIFF\0\0\0\0AVI LIST" + bytes(100),
        "AIFF": b"FORM\0\0\0\0AIFFCOMM" + bytes(100),
        "ASF": bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + bytes(100),
        "FLV": b"FLV\x01\x05\0\0\0\x09" + bytes(100),
        "MPEG transport stream": (b"G\x40\0\x10" + bytes(184)) * 10,
        "MIDI": b"MThd\0\0\0\6\0\1\0\1\0\x60" + bytes(100),
        "Wave64": b"riff\x2e\x91\xcf\x11" + bytes(100),
        "CAF": b"caff\0\1\0\0desc" + bytes(100),
        "Vorbis without Ogg": b"\x01vorbis" + bytes(100),
    }
    return (one(name, content, UNSUPPORTED) for name, content in contents.items())


def _lists() -> Iterator[Hostile]:
    lists: dict[str, Callable[[str], str]] = {
        "m3u8": lambda url: f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n",
        "m3u8 with a key": lambda url: f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{url}"\na.ts\n',
        "m3u": lambda url: f"{url}\n",
        "pls": lambda url: f"[playlist]\nFile1={url}\nNumberOfEntries=1\nVersion=2\n",
        "ffconcat": lambda url: f"ffconcat version 1.0\nfile '{url}'\n",
        "DASH": lambda url: (
            "<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><Period>"
            f"<BaseURL>{url}</BaseURL></Period></MPD>"
        ),
        "SDP": lambda _: "v=0\r\nc=IN IP4 127.0.0.1\r\nm=audio 1234 RTP/AVP 0\r\n",
        "XSPF": lambda url: f"<?xml version='1.0'?><playlist><location>{url}</location></playlist>",
        "ASX": lambda url: f"<asx version='3'><entry><ref href='{url}'/></entry></asx>",
        "cue": lambda url: f'FILE "{url}" WAVE\n  TRACK 01 AUDIO\n',
        "ffmetadata": lambda url: f";FFMETADATA1\nurl={url}\n",
        "image sequence": lambda url: f"{url}%03d.wav",
    }
    for name, write in lists.items():
        yield Hostile(name, partial(_listed, write), frozenset({UNSUPPORTED}))


def _listed(write: Callable[[str], str], lures: Lures) -> bytes:
    return "".join(map(write, lures.addresses())).encode()


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
        "ones": b"\xff" * 20_000,
        "noise": np.random.default_rng(1).bytes(20_000),
        "a playlist": b"\n#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\nhttp://127.0.0.1/\n" * 99,
        "a concat script": b"\nffconcat version 1.0\nfile /etc/passwd\n" * 99,
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
    )
    yield from luring("MP4 alias", files.alias_to, DONE, *BROKEN)
    yield from luring("QuickTime reference movie", files.reference_movie, *BROKEN)
    yield from luring(
        "MP4 with SDP in its user data",
        lambda url: files.with_user_data(box(b"udta", box(b"hnti", box(b"sdp ", url.encode())))),
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
        lambda url: files.wav_with_chunk(b"LIST", b"INFO" + _chunk(b"IURL", url.encode())),
        DONE,
    )
    yield from luring("Ogg with addresses in its comments", _ogg_that_names, SILENT)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack("<4sI", name, len(content)) + content + b"\0" * (len(content) % 2)


def _ogg_that_names(url: str) -> bytes:
    tags = files.opus_tags(f"CONTACT={url}", f"METADATA_BLOCK_PICTURE={url}", f"LOCATION={url}")
    return files.ogg_opus(files.opus_head(), tags)


def _cut() -> Iterator[Hostile]:
    for flavour in FLAVOURS:
        for share in SHARES:
            yield one(
                f"{flavour}, {share:.1%} of it",
                lambda f=flavour, s=share: (whole := good(f))[  # type: ignore[misc]
                    : max(1, int(s * len(whole)))
                ],
                *(DONE, TOO_SHORT, *BROKEN),
            )
    whole = good(M4A)
    yield one("MP4 without its index", whole[: whole.index(b"moov") - 4], CORRUPT)


def _damaged() -> Iterator[Hostile]:
    damages = {"bits flipped": files.flipped, "a piece missing": files.without_a_piece}
    for flavour in FLAVOURS:
        for name, damage in damages.items():
            for seed in SEEDS:
                yield one(
                    f"{flavour}, {name}, seed {seed}",
                    lambda d=damage, f=flavour, s=seed: d(good(f), s),  # type: ignore[misc]
                    *(DONE, TOO_SHORT, TOO_LONG, SILENT, TOO_COMPLEX, *BROKEN),
                )


def _huge() -> Iterator[Hostile]:
    refused = (*BROKEN, TOO_COMPLEX)
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
        yield one(name, head, *refused, SILENT)
    yield one("MP4 samples", lambda: endless_table(good(M4A)), *refused)
    for table in (b"stts", b"stsc", b"stsz", b"stco", b"stsd", b"elst", b"dref"):
        name = table.decode()
        yield one(f"MP4 table {name}", partial(files.with_table, table), DONE, *refused)
    yield one("MP4 fragment", partial(files.fragment_with_samples, 2**32 - 1), DONE, *refused)
    yield one(
        "WAV samples", lambda: raw_wav(files.pcm16(SECONDS, 48_000), declared=2**32 - 1), DONE
    )
    yield one("RF64 samples", partial(files.rf64, 2**63), DONE, *refused)
    yield one("FLAC samples", partial(files.with_flac_total, 2**36 - 1), DONE)
    for name in ("LIST", "id3 ", "bext", "JUNK"):
        chunk = partial(files.wav_with_chunk, name.encode(), b"", 2**32 - 1)
        yield one(f"WAV chunk {name}", chunk, DONE, *refused)


def _many() -> Iterator[Hostile]:
    refused = (*BROKEN, TOO_COMPLEX)
    yield one("100 000 Matroska tracks", partial(many_streams, 100_000), *refused)
    yield one("100 000 Ogg streams", partial(files.many_logical_streams, 100_000), *refused)
    for name in ("trak", "udta", "free", "moof", "meta"):
        boxes = partial(files.many_boxes, name.encode(), 100_000)
        yield one(f"100 000 MP4 boxes {name}", boxes, *refused)
    for kind in ("chapters", "tags", "attachments", "cues", "seeks"):
        elements = partial(files.many_elements, kind, 100_000)
        yield one(f"100 000 Matroska {kind}", elements, *refused)
    yield one(
        "6 000 Opus comments in a page",
        lambda: files.ogg_opus(files.opus_head(), files.opus_tags(*["A=B"] * 6_000)),
        SILENT,
    )
    yield one(
        "100 000 FLAC blocks",
        lambda: files.flac_with_blocks(*[(2, b"abcd")] * 100_000),
        DONE,
        *refused,
    )
    yield one("100 000 MP4 boxes in each other", partial(files.nested_boxes, 100_000), *refused)
    yield one(
        "100 000 Matroska elements in each other", partial(files.nested_elements, 100_000), *refused
    )
    yield one("100 000 empty Matroska blocks", lambda: _blocks(b"", 100_000), *refused)


def _blocks(block: bytes, count: int) -> bytes:
    return files.matroska(files.track(b"A_OPUS"), files.cluster(*[block] * count))


def _pictures() -> Iterator[Hostile]:
    films = (
        ("webm", "libvpx", "libopus"),
        ("mp4", "libx264", "aac"),
        ("matroska", "mpeg4", "libopus"),
    )
    for film in films:
        yield one(f"{film[0]} with {film[1]}", partial(with_video, *film, SECONDS), DONE)
    for flavour in ("mp3", "flac", "fragmented mp4 from Safari or Chrome"):
        yield one(f"{flavour} with cover art", partial(with_cover_art, FLAVOURS[flavour]), DONE)
    yield one("a film without sound", files.silent_film, NO_AUDIO)
    bomb = files.png_bomb(30_000)
    yield one(
        "FLAC with a picture of 900 million points",
        lambda: files.flac_with_blocks((6, files.flac_picture(b"image/png", bomb, width=30_000))),
        DONE,
    )
    yield one(
        "MP3 with a picture of 900 million points",
        lambda: files.id3((b"APIC", b"\0image/png\0\3\0" + bomb)) + good("mp3"),
        DONE,
    )


def _bombs() -> Iterator[Hostile]:
    refused = (*BROKEN, TOO_COMPLEX)
    yield one("MP4 index, 1 GB", partial(files.compressed_index, 1024), *refused)
    for algorithm, name in enumerate(("zlib", "bzlib", "lzo")):
        frames = partial(files.compressed_frames, 1024, algorithm)
        yield one(f"Matroska frame, 1 GB, {name}", frames, *refused, SILENT, TOO_LONG)
    yield one(
        "Matroska frame, 100 MB, zlib", partial(files.compressed_frames, 100, 0), *refused, TOO_LONG
    )
    yield one("ID3 picture, 1 GB", partial(files.id3_bomb, 1024), DONE, *refused)


def _hidden() -> Iterator[Hostile]:
    for packets in (200, 12_000):
        yield one(f"Opus, {packets} packets", partial(hidden_opus, packets), TOO_COMPLEX)
    for edits in (1_200, 20_000):
        edited = partial(edited_again_and_again, edits)
        yield one(f"MP4, {edits} edits", edited, TOO_COMPLEX)


def _silence() -> Iterator[Hostile]:
    yield one("45 minutes of FLAC", partial(flac_bomb, 2_000), TOO_LONG)
    yield one("1 hour of Opus", partial(opus_bomb, 3_600), TOO_LONG)
    yield one(
        "1 hour of Opus in Ogg",
        lambda: files.ogg_opus(files.opus_head(), files.opus_tags(), packets=60_000),
        TOO_LONG,
    )
    yield one(
        "14 hours of 8-bit WAV at 160 Hz",
        lambda: raw_wav(b"\x80" * MAX_BYTES_OF_WAV, sample_rate=160, bits=8),
        UNSUPPORTED,
    )


MAX_BYTES_OF_WAV = MAX_BYTES - 100


def _samples() -> Iterator[Hostile]:
    for bits in (32, 64):
        for worst in ("nan", "inf", "-inf", "3e38"):
            for share in (1.0, 0.5, 0.0):
                yield one(
                    f"float{bits} {worst}, {share:.0%} of them",
                    partial(files.float_wav, float(worst), bits=bits, share=share),
                    CORRUPT,
                )
        yield one(f"float{bits} denormal", partial(files.float_wav, 1e-40, bits=bits), SILENT)
    yield one("float64 beyond float32", partial(files.float_wav, 1e300, bits=64), CORRUPT)


def _rates() -> Iterator[Hostile]:
    for rate in (0, 1, 100, 7_999, 192_001, 1_000_000, 4_000_000_000):
        sound = files.pcm16(SECONDS, 48_000)
        yield one(f"WAV at {rate} Hz", raw_wav(sound, sample_rate=rate), CORRUPT, UNSUPPORTED)
    for rate in (8_000, 11_025, 96_000, 176_400, 192_000):
        yield one(
            f"WAV at {rate} Hz",
            lambda r=rate: raw_wav(files.pcm16(SECONDS, r), sample_rate=r),  # type: ignore[misc]
            DONE,
        )
    for said in ("nan", "inf", "-inf", "-1", "0", "0.5", "1e6", "1e300"):
        yield one(
            f"Matroska at {said} Hz", partial(files.pcm_matroska, rate=float(said)), DONE, *BROKEN
        )
    for scale in (0, 1, 2**31, 2**32 - 1):
        yield one(
            f"MP4 with {scale} ticks a second",
            partial(files.with_timescale, scale),
            DONE,
            TOO_SHORT,
            *BROKEN,
        )


def _channels() -> Iterator[Hostile]:
    for channels in (0, 9, 64, 255, 65_535):
        sound = bytes(channels % 256 * 2 * 4_800)
        yield one(f"WAV with {channels} channels", raw_wav(sound, channels=channels), *BROKEN)
    # The costliest for its size that a search has found: see `costs.py`.
    yield one(
        "WAV with 65535 channels in 4 MB", raw_wav(bytes(4_000_000), channels=65_535), *BROKEN
    )
    yield one(
        "WAV with 8 channels",
        raw_wav(files.pcm16(SECONDS, 16_000, 8), sample_rate=16_000, channels=8),
        DONE,
    )
    for channels in (0, 9, 255):
        yield one(
            f"Matroska with {channels} channels",
            partial(files.pcm_matroska, channels=channels),
            DONE,
            *BROKEN,
        )
        head = files.opus_head(channels=channels, family=255)
        # Decoders of 255 channels take more memory than a recording may.
        data = files.ogg_opus(head, files.opus_tags())
        yield one(f"Opus with {channels} channels", data, *BROKEN, TOO_COMPLEX)


def _changes() -> Iterator[Hostile]:
    for flavour in ("mp3", "raw aac"):
        yield one(
            f"{flavour}, another sample rate",
            lambda f=flavour: recording(f, 2, 48_000) + recording(f, 2, 44_100),  # type: ignore[misc]
            DONE,
        )
        yield one(
            f"{flavour}, another channel count",
            lambda f=flavour: recording(f, 2, 48_000, 1) + recording(f, 2, 48_000, 2),  # type: ignore[misc]
            DONE,
        )
    yield one("Ogg after Ogg", lambda: recording(OGG, 2) + recording(OGG, 2), DONE)
    yield one("WebM after WebM", lambda: recording(WEBM, 2) + recording(WEBM, 2), DONE, CORRUPT)
    yield one("FLAC after MP3", lambda: recording("mp3", 2) + recording("flac", 2), DONE, CORRUPT)


def _codecs() -> Iterator[Hostile]:
    for code in (0x02, 0x11, 0x31, 0x45, 0x50, 0x130, 0x161, 0x2000, 0xF1AC, 0xFFFF):
        wav = raw_wav(files.pcm16(SECONDS, 48_000), code=code)
        yield one(f"WAV with format {code:#06x}", wav, *BROKEN)
    for codec in (
        "A_AC3",
        "A_DTS",
        "A_REAL/COOK",
        "A_MS/ACM",
        "A_TRUEHD",
        "A_ATRAC/AT1",
        "V_VP9",
        "S_TEXT/UTF8",
        "A_NO",
    ):
        entry = files.track(codec.encode())
        yield one(
            f"Matroska with {codec}", files.matroska(entry, files.cluster(bytes(99))), *BROKEN
        )


def _lengths() -> Iterator[Hostile]:
    yield one("no samples", raw_wav(b""), NO_AUDIO)
    yield one("zeros", raw_wav(bytes(192_000)), SILENT)
    yield one("half a second", partial(recording, "16-bit wav", 0.5), TOO_SHORT)
    yield one("eleven seconds", partial(recording, "16-bit wav", 11), TOO_LONG)


def _costliest() -> Iterator[Hostile]:
    for name, make in COSTLIEST.items():
        yield one(name, make, *BROKEN, TOO_COMPLEX)
