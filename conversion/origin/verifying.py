"""Verifies files that anybody may send: decoded in the sandbox, read apart, and nothing kept."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from conversion.origin.verdict import Verification
from shared.errors import PassingError
from shared.voices.media import SNIFF_BYTES, sniff
from shared.voices.voice import ErrorCode, VoiceError
from speech.decoding.recordings.recording import DecodeLimits
from speech.results.credentials.apart import read_credentials_apart
from speech.results.watermark.detection import find_watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from speech.decoding.decoder import Decoder
    from speech.results.watermark.detection import Finding
    from speech.results.watermark.pattern import WatermarkKey

MOST_BYTES: Final = 10_000_000
LIMITS: Final = DecodeLimits(min_seconds=0.1, max_seconds=60.0, max_bytes=MOST_BYTES)
"""Of a file."""

_MOST_WAITING: Final = 4


class BusyVerifyingError(PassingError):
    """As many files as may wait are waiting."""


class Verifier:
    """Verifies one file after the other, so that many of them leave conversions their time.

    Args:
        decoder: decodes files in its sandbox.
        keys: of the deployment's watermarks, the present one and earlier ones.
        own_certificates: of the deployment's signers, as PEM; may be empty.
        turn: takes a place among the conversions of this process.
    """

    def __init__(
        self,
        decoder: Decoder,
        keys: Sequence[WatermarkKey],
        own_certificates: str,
        turn: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        self._decoder = decoder
        self._keys = keys
        self._own_certificates = own_certificates
        self._take_turn = turn
        self._one_at_a_time = asyncio.Lock()
        self._here = 0

    async def verify(self, data: bytes) -> Verification:
        """Verify a file.

        Raises:
            VoiceError: it is too large, too long, or no sound that can be decoded.
            BusyVerifyingError: too many files wait already.
            DecoderUnavailableError: trying again may help.
        """
        if len(data) > MOST_BYTES:
            raise VoiceError(
                ErrorCode.TOO_LARGE, f"The file has more than the {MOST_BYTES} bytes accepted."
            )
        if self._here > _MOST_WAITING:
            raise BusyVerifyingError(f"{self._here} files are verified or wait")
        self._here += 1
        try:
            async with self._one_at_a_time, self._take_turn():
                return await self._verify(data)
        finally:
            self._here -= 1

    async def _verify(self, data: bytes) -> Verification:
        watermark = await self._search(data)
        container = sniff(data[:SNIFF_BYTES])
        if container is None:
            raise VoiceError(ErrorCode.UNSUPPORTED_FORMAT, "The file is no sound that is known.")
        credentials = await read_credentials_apart(data, container, self._own_certificates)
        return Verification(credentials, watermark)

    async def _search(self, data: bytes) -> Finding | None:
        try:
            recording = await self._decoder.decode(data, limits=LIMITS)
        except VoiceError as error:
            if error.code is ErrorCode.SILENT:
                return None
            raise
        return await asyncio.to_thread(
            find_watermark, recording.samples, recording.sample_rate, self._keys
        )
