"""Was this made here? Real files, decoded in the sandbox and read apart."""

from __future__ import annotations

import asyncio
import struct
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infra.local.configuration.keys import CERTIFICATES
from shared.characters.manifest import Uses
from shared.conversion import verification
from shared.conversion.verification import (
    SENTENCES,
    ProvenanceFinding,
    ProvenanceVerdict,
    Verifier,
    VerifierBusyError,
)
from shared.speech.decoding.decoder import Decoder
from shared.speech.results import credentials
from shared.speech.results.audio_files import encode_result
from shared.speech.results.credentials import (
    Credentials,
    CredentialsFinding,
    read_credentials_apart,
)
from shared.speech.results.statement import describe
from shared.speech.results.watermark import Watermark, WatermarkKey
from shared.speech.results.watermark_detection import WatermarkFinding
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, OutputFormat, VoiceError
from tests.unit.results.stranger_speech import RATE, read_aloud
from tests.unit.results.test_credentials import KEYS, MARKING, MEI, SIGNER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.speech.signal.sound import Samples

KEY = WatermarkKey(b"the key of the verifier's tests!")
EARLIER = WatermarkKey(b"the key of last year, still used")


def plain() -> Samples:
    return read_aloud(4.0, "1998")


def marked(key: WatermarkKey = KEY) -> Samples:
    return Watermark(key, 4711, RATE).mark(plain(), seed=9)


def file(samples: Samples, output_format: OutputFormat = OutputFormat.WAV) -> bytes:
    return encode_result(samples, RATE, output_format, MARKING).data


def signed(data: bytes, content_type: str = "audio/wav") -> bytes:
    return SIGNER.add_credentials(data, content_type, describe(MEI, MARKING, datetime.now(UTC)))


@pytest.fixture
async def verifier() -> AsyncIterator[Verifier]:
    async with Decoder() as decoder:
        yield Verifier(decoder, [KEY, EARLIER], KEYS[CERTIFICATES])


async def test_a_result_is_recognised_with_its_bits(verifier: Verifier) -> None:
    answer = (await verifier.verify(signed(file(marked())))).to_answer()

    assert answer["verdict"] == ProvenanceVerdict.UNCHANGED
    assert answer["sentences"] == dict(SENTENCES[ProvenanceVerdict.UNCHANGED])
    assert answer["credentials"]["state"] == "ours"
    assert answer["watermark"]["state"] == "found"
    assert answer["watermark"]["bits"] == 4711
    assert 0 < answer["watermark"]["chance"] < 1e-4


async def test_a_long_result_is_recognised_by_its_beginning(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "LIMITS", replace(verification.LIMITS, max_seconds=5.0))

    finding = await verifier.verify(signed(file(np.tile(marked(), 3))))

    assert finding.verdict is ProvenanceVerdict.UNCHANGED
    assert finding.watermark is not None
    assert finding.watermark.payload == 4711


def test_the_chance_is_told_in_steps() -> None:
    told = {
        ProvenanceFinding(
            CredentialsFinding(Credentials.MISSING), WatermarkFinding(1, agreement, 1.0)
        ).to_answer()["watermark"]["chance"]
        for agreement in np.linspace(7.2, 20, 200)
    }
    assert len(told) == 3


async def test_the_answer_names_what_the_owner_of_the_voice_forbids(verifier: Verifier) -> None:
    uses = Uses(commercial=False, redistribution=True, adult=True, politics=False)
    strict = MEI.model_copy(update={"uses": uses})
    statement = describe(strict, MARKING, datetime.now(UTC))
    data = SIGNER.add_credentials(file(marked()), "audio/wav", statement)

    said = (await verifier.verify(data)).to_answer()["sentences"]

    assert said["en"].endswith(" The owner of the voice forbids: commercial use, politics.")
    assert said["ja"].endswith("禁じている利用は、次のとおりです。商用利用、政治的な利用。")


async def test_a_result_of_which_one_sample_was_changed_is_recognised_as_that(
    verifier: Verifier,
) -> None:
    data = bytearray(signed(file(marked())))
    data[len(file(marked())) // 2] ^= 1

    assert (await verifier.verify(bytes(data))).verdict is ProvenanceVerdict.CHANGED


@pytest.mark.parametrize("output_format", [OutputFormat.MP3, OutputFormat.OGG])
async def test_a_copy_without_its_statement_is_recognised_by_the_watermark(
    verifier: Verifier, output_format: OutputFormat
) -> None:
    found = await verifier.verify(file(marked(EARLIER), output_format))

    assert found.verdict is ProvenanceVerdict.COPY
    assert found.to_answer()["watermark"]["bits"] == 4711


async def test_nothing_is_said_of_what_was_not_made_here(verifier: Verifier) -> None:
    unmarked = await verifier.verify(file(plain()))
    silent = await verifier.verify(file(np.zeros(RATE, np.float32)))

    assert unmarked.verdict is silent.verdict is ProvenanceVerdict.UNKNOWN
    assert unmarked.to_answer()["watermark"] == {"state": "not_found", "bits": None, "chance": None}
    assert silent.to_answer()["watermark"]["state"] == "not_searched"


async def test_the_statement_of_somebody_else_is_told_apart() -> None:
    async with Decoder() as decoder:
        found = await Verifier(decoder, [KEY], "").verify(signed(file(plain())))

    assert found.verdict is ProvenanceVerdict.SIGNED_BY_OTHERS


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"no sound at all" * 100, ErrorCode.UNSUPPORTED_FORMAT),
        (b"", ErrorCode.NO_AUDIO),
        (bytes(verification.MOST_BYTES + 1), ErrorCode.TOO_LARGE),
    ],
    ids=["text", "nothing", "too large"],
)
async def test_what_cannot_be_verified_is_refused(
    verifier: Verifier, data: bytes, code: ErrorCode
) -> None:
    with pytest.raises(VoiceError) as refusal:
        await verifier.verify(data)

    assert refusal.value.code in {code, ErrorCode.UNSUPPORTED_FORMAT}


async def test_a_flood_of_files_is_refused_and_the_verifier_works_afterwards(
    verifier: Verifier,
) -> None:
    silence = file(np.zeros(RATE, np.float32))
    answers = await asyncio.gather(
        *(verifier.verify(silence) for _ in range(9)), return_exceptions=True
    )

    refused = [each for each in answers if isinstance(each, VerifierBusyError)]
    assert len(refused) == 4
    assert (await verifier.verify(silence)).verdict is ProvenanceVerdict.UNKNOWN


def box(kind: bytes, content: bytes, size: int | None = None) -> bytes:
    return struct.pack(">I4s", 8 + len(content) if size is None else size, kind) + content


def with_chunk(content: bytes, claimed: int) -> bytes:
    """A WAV file with a chunk for statements."""
    whole = file(plain()[:RATE])
    return whole + b"C2PA" + struct.pack("<I", claimed) + content


DESCRIPTION = bytes.fromhex("63327061001100108000 00aa00389b71".replace(" ", "")) + b"\x03c2pa\0"


def boxes_in_boxes() -> bytes:
    deep = b""
    for _ in range(20_000):
        deep = box(b"jumb", box(b"jumd", DESCRIPTION) + deep[:400_000])
    return with_chunk(deep, len(deep))


# Made by the test: every process that collects tests imports this module.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "a size of 4 GiB": lambda: with_chunk(box(b"jumb", b"", 0xFFFFFFFF), 0xFFFFFFFF),
    "a size of 2 GiB in a small chunk": lambda: with_chunk(box(b"jumb", b"x" * 40, 0x7FFFFFFF), 48),
    "a 64-bit size": lambda: with_chunk(struct.pack(">I4sQ", 1, b"jumb", 1 << 62), 16),
    "size 0": lambda: with_chunk(box(b"jumb", b"", 0), 8),
    "boxes in boxes": boxes_in_boxes,
    "noise": lambda: with_chunk(np.random.default_rng(0).bytes(100_000), 100_000),
    "half a statement": lambda: signed(file(marked()))[:-6000],
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_statement_ends_within_the_limits_and_is_believed_by_nobody(
    make: Callable[[], bytes],
) -> None:
    data = make()
    began = time.monotonic()
    found = await read_credentials_apart(data, Container.WAV, KEYS[CERTIFICATES])

    assert found.state in {Credentials.INVALID, Credentials.MISSING, Credentials.CHANGED}
    assert time.monotonic() - began < credentials.WALL_SECONDS + 2


def with_absurd_boxes(output_format: OutputFormat, media_type: str) -> bytes:
    """A signed file in which each box of the statement claims 4 GiB."""
    data = bytearray(signed(file(marked(), output_format), media_type))
    kinds = (b"jumb", b"jumd", b"cbor", b"uuid")
    for kind in kinds:
        place = data.find(kind)
        while place > 0:
            data[place - 4 : place] = b"\xff\xff\xff\xf0"
            place = data.find(kind, place + 1)
    return bytes(data)


@pytest.mark.parametrize(
    ("output_format", "container", "media_type"),
    [
        (OutputFormat.WAV, Container.WAV, "audio/wav"),
        (OutputFormat.MP3, Container.MP3, "audio/mpeg"),
        (OutputFormat.M4A, Container.MP4, "audio/mp4"),
    ],
)
async def test_a_statement_whose_boxes_claim_absurd_sizes_is_believed_in_no_container(
    verifier: Verifier, output_format: OutputFormat, container: Container, media_type: str
) -> None:
    data = with_absurd_boxes(output_format, media_type)
    began = time.monotonic()

    finding = await read_credentials_apart(data, container, KEYS[CERTIFICATES])
    with suppress(VoiceError):
        assert (await verifier.verify(data)).verdict is not ProvenanceVerdict.UNCHANGED

    assert finding.state in {Credentials.INVALID, Credentials.MISSING}
    assert time.monotonic() - began < 2 * credentials.WALL_SECONDS


async def test_reading_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "WALL_SECONDS", 0.01)

    found = await read_credentials_apart(signed(file(plain())), Container.WAV, "")

    assert found.state is Credentials.INVALID


async def test_what_a_file_says_is_cut_before_it_is_shown() -> None:
    talkative = replace(MARKING, character_name="x" * 5000)
    manifest = MEI.model_copy(update={"id": "y" * 5000})
    data = SIGNER.add_credentials(
        file(plain()), "audio/wav", describe(manifest, talkative, datetime.now(UTC))
    )

    found = await read_credentials_apart(data, Container.WAV, "")

    assert found.state is Credentials.VALID
    assert found.character == "y" * 300
