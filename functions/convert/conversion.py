"""The work on one voice: read, decode, convert, encode, store."""

from __future__ import annotations

import asyncio
import hashlib
import io
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.convert.stopwatch import Stopwatch
from shared.media import content_type_matches
from shared.objects import ObjectExistsError, ObjectMissingError, result_name
from shared.voice import ErrorCode, Result, VoiceError
from speech.audio.encoding import encode
from speech.audio.marking import Marking
from speech.engines.base import ConversionOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    import numpy as np
    import numpy.typing as npt

    from shared.characters import CharacterManifest
    from shared.ports.bucket import Bucket
    from shared.voice import Input, Voice
    from speech.audio.decoding import Decoder
    from speech.audio.encoding import Encoded
    from speech.audio.recording import DecodeLimits, Recording
    from speech.engines.base import Engine


@dataclass(frozen=True, slots=True)
class Performer:
    """A character, ready to convert: what it is, and the engine that speaks for it."""

    manifest: CharacterManifest
    engine: Engine

    @property
    def marking(self) -> Marking:
        """What its results say about themselves."""
        return Marking(self.manifest.id, self.manifest.name.en, self.manifest.credit)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A conversion that succeeded.

    Attributes:
        result: the converted audio in its bucket.
        seconds: the recording's length.
        timings: milliseconds per stage.
    """

    result: Result
    seconds: float
    timings: Mapping[str, float]


class Conversion:
    """Converts voices; every part is shared by all conversions of the process.

    Args:
        uploads: the bucket of the recordings.
        results: the bucket of the results; it must be able to sign.
        decoder: decodes recordings.
        performers: the characters by id.
        limits: what a recording may be.
        result_lifetime: how long a result's address works.
    """

    def __init__(
        self,
        *,
        uploads: Bucket,
        results: Bucket,
        decoder: Decoder,
        performers: Mapping[str, Performer],
        limits: DecodeLimits,
        result_lifetime: timedelta,
    ) -> None:
        self._uploads = uploads
        self._results = results
        self._decoder = decoder
        self._performers = performers
        self._limits = limits
        self._result_lifetime = result_lifetime

    async def run(self, voice: Voice, enter_stage: Callable[[str], None]) -> Outcome:
        """Convert a leased voice.

        Args:
            voice: the voice, with its input and the attempt that works on it.
            enter_stage: is told what is being done.

        Raises:
            VoiceError: the voice is the reason; trying again cannot help.
            StorageUnavailableError, DecoderUnavailableError: trying again can help.
        """
        performer, upload = self._performer(voice), _input(voice)
        watch = Stopwatch()
        enter_stage("reading")
        with watch.stage("read"):
            data = await self._read(upload)
        enter_stage("decoding")
        with watch.stage("decode"):
            recording = await self._decode(data, upload)
        enter_stage("converting")
        samples = await self._convert(voice, performer, recording, watch)
        enter_stage("encoding")
        with watch.stage("encode"):
            encoded = await asyncio.to_thread(
                encode,
                samples,
                performer.engine.sample_rate,
                voice.options.output_format,
                performer.marking,
            )
        enter_stage("storing")
        with watch.stage("store"):
            result = await self._store(voice, encoded, performer.marking)
        return Outcome(result, round(recording.seconds, 3), watch.milliseconds())

    async def discard(self, voice: Voice) -> None:
        """Delete what the voice's present attempt has stored and may not commit, if anything."""
        await self._results.delete_all(f"{voice.voice_id}/{voice.attempt}.")

    async def discard_all(self, voice_id: str) -> None:
        """Delete what any attempt at a voice that is erased has stored."""
        await self._results.delete_all(f"{voice_id}/")

    async def discard_others(self, voice: Voice) -> None:
        """Delete what other attempts at a finished voice have stored."""
        keep = voice.result.object if voice.result else ""
        await self._results.delete_all(f"{voice.voice_id}/", except_for=keep)

    def _performer(self, voice: Voice) -> Performer:
        performer = self._performers.get(voice.character)
        if performer is None:
            raise VoiceError(
                ErrorCode.UNKNOWN_CHARACTER,
                f"There is no character {voice.character!r}; "
                f"choose one of {', '.join(sorted(self._performers))}.",
            )
        return performer

    async def _read(self, upload: Input) -> bytes:
        most = self._limits.max_bytes
        if upload.bytes > most:
            raise _too_large(upload.bytes, most)
        try:
            data = await self._uploads.read(upload.object, upload.generation, max_bytes=most)
        except ObjectMissingError as error:
            raise VoiceError(
                ErrorCode.SOURCE_MISSING, "The recording is gone; please record again."
            ) from error
        if len(data) > most:
            raise _too_large(len(data), most)
        return data

    async def _decode(self, data: bytes, upload: Input) -> Recording:
        recording = await self._decoder.decode(data, limits=self._limits)
        if not content_type_matches(recording.container, upload.content_type):
            raise VoiceError(
                ErrorCode.CONTENT_TYPE_MISMATCH,
                f"The recording is {recording.container}, but was uploaded as "
                f"{upload.content_type}; announce the type that the recorder really makes.",
            )
        return recording

    async def _convert(
        self, voice: Voice, performer: Performer, recording: Recording, watch: Stopwatch
    ) -> npt.NDArray[np.float32]:
        # The seed follows from the voice: another attempt at it gives the same bytes.
        seed = zlib.crc32(voice.voice_id.encode())
        options = ConversionOptions(pitch_shift=voice.options.pitch_shift, seed=seed)
        return await asyncio.to_thread(
            performer.engine.convert,
            recording.samples,
            recording.sample_rate,
            options,
            stopwatch=watch,
        )

    async def _store(self, voice: Voice, encoded: Encoded, marking: Marking) -> Result:
        name = result_name(voice.voice_id, voice.attempt, encoded.extension.removeprefix("."))
        # Beside the writing: in the cloud, each of the two is a request that takes its time.
        signing = asyncio.create_task(self._sign(voice, name, encoded.extension))
        try:
            await self._write(name, encoded)
            url, expires_at = await signing
        finally:
            signing.cancel()
            await asyncio.gather(signing, return_exceptions=True)
        return Result(
            bucket=self._results.name,
            object=name,
            url=url,
            url_expires_at=expires_at,
            content_type=encoded.content_type,
            bytes=len(encoded.data),
            seconds=round(encoded.seconds, 3),
            sha256=hashlib.sha256(encoded.data).hexdigest(),
            synthetic=marking.tags(),
        )

    async def _write(self, name: str, encoded: Encoded) -> None:
        # Where it exists, the answer to our own write was lost: no other worker has this attempt.
        with suppress(ObjectExistsError):
            await self._results.write(
                name,
                io.BytesIO(encoded.data),
                content_type=encoded.content_type,
                size=len(encoded.data),
            )

    async def _sign(self, voice: Voice, name: str, extension: str) -> tuple[str, datetime]:
        filename = f"{voice.character}-{voice.voice_id[:8]}{extension}"
        return await self._results.sign_download(
            name, lifetime=self._result_lifetime, filename=filename
        )


def _input(voice: Voice) -> Input:
    if voice.input is None:
        raise ValueError(f"voice {voice.voice_id} was leased without its input")
    return voice.input


def _too_large(size: int, most: int) -> VoiceError:
    message = f"The recording has {size} bytes; at most {most} are converted."
    return VoiceError(ErrorCode.TOO_LARGE, message)
