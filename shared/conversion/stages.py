"""The work on one voice: read, decode, convert, encode, store."""

from __future__ import annotations

import asyncio
import hashlib
import io
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from shared.container.admission import stay
from shared.conversion.stopwatch import Stages, ThreadWork
from shared.speech.engines.interface import ConversionOptions, MarkedPiece, speak_marked
from shared.speech.engines.text_interface import SpeechOptions, TextError
from shared.speech.results.audio_files import encode_result
from shared.voices.media import content_type_matches
from shared.voices.objects import ObjectExistsError, ObjectMissingError, result_name
from shared.voices.voice import ErrorCode, Result, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from shared.container.admission import PassOn
    from shared.conversion.characters import LoadedCharacter
    from shared.conversion.provenance import NoticePlace, ResultCredentials, SpokenNotice
    from shared.conversion.stopwatch import Lap
    from shared.ports import Bucket
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.decoding.recording import DecodeLimits, Recording
    from shared.speech.engines.interface import EarlyPieces, Mark
    from shared.speech.engines.text_interface import TextEngine
    from shared.speech.results.audio_files import EncodedResult
    from shared.speech.results.statement import Marking
    from shared.speech.signal.sound import Samples
    from shared.voices.voice import Input, Voice


@dataclass(frozen=True, slots=True)
class Outcome:
    result: Result
    seconds: float | None  # the recording's length; None for a text
    timings: Mapping[str, float]  # milliseconds of each stage
    laps: Sequence[Lap] = ()
    missing_seconds: float | None = None  # of a damaged recording


@dataclass(frozen=True, slots=True)
class UnstoredResult:
    encoded: EncodedResult
    marking: Marking
    seconds: float | None  # the recording's length; None for a text
    phones: str = ""
    missing_seconds: float | None = None  # of a damaged recording


class EarlyResult(Protocol):
    """The part of a conversion that was done before all of the recording had come."""

    ahead: EarlyPieces

    async def decoded(self) -> Recording | None:
        """Return the recording as `Decoder.decode` would; None to call that instead."""


class Conversion:
    def __init__(
        self,
        *,
        uploads: Bucket,
        results: Bucket,
        decoder: Decoder,
        limits: DecodeLimits,
        max_speech_seconds: float,
        result_lifetime: timedelta,
        credentials: ResultCredentials | None = None,
        notice: SpokenNotice | None = None,
        threads: ThreadWork | None = None,
    ) -> None:
        self._uploads = uploads
        self._results = results
        self._decoder = decoder
        self._limits = limits
        self._max_speech_seconds = max_speech_seconds
        self._result_lifetime = result_lifetime
        self._credentials = credentials
        self._notice = notice
        self.threads = threads or ThreadWork()

    async def run(
        self,
        voice: Voice,
        character: LoadedCharacter,
        enter_stage: Callable[[str], None],
        pass_on: PassOn = stay,
    ) -> Outcome:
        """Convert a leased voice; see `Attempt.convert`, and `make` for its errors."""
        if voice.input is None:
            raise ValueError(f"voice {voice.voice_id} was leased without its input")
        upload = voice.input
        stages = Stages(enter_stage)
        with stages.enter("reading", timed_as="read"):
            data = await self._read(voice, upload)
        made = await self.make(voice, character, data, upload.content_type, stages, pass_on=pass_on)
        return await self.store(voice, made, stages)

    async def make(
        self,
        voice: Voice,
        character: LoadedCharacter,
        data: bytes,
        content_type: str,
        stages: Stages,
        *,
        early: EarlyResult | None = None,
        pass_on: PassOn = stay,
    ) -> UnstoredResult:
        """Convert a recording or speak a text; nothing is stored, and the voice need not be leased.

        Raises:
            VoiceError: the voice cannot be converted; trying again cannot help.
            DecoderUnavailableError: trying again may help.
        """
        marks: Sequence[Mark] = ()
        missing: float | None = None
        if voice.options.speaking is None:
            with stages.enter("decoding", timed_as="decode"):
                recording = await self._decode(data, content_type, early)
            with stages.enter("converting"):
                options = conversion_options(voice, early.ahead if early else None)
                samples = await self.threads.run(
                    character.engine.convert,
                    recording.samples,
                    recording.sample_rate,
                    options,
                    stopwatch=stages.stopwatch,
                )
            seconds = round(recording.seconds, 3)
            if recording.damaged:
                missing = round(recording.missing_seconds, 3)
        else:
            speech = SpeechOptions(**asdict(voice.options.speaking), seed=seed_of(voice))
            with stages.enter("speaking", timed_as="speak"):
                spoken = await speak(
                    self.threads,
                    character.text_engine,
                    data,
                    speech,
                    self._max_speech_seconds,
                    pass_on=pass_on,
                )
            samples, marks = spoken.samples, spoken.marks
            seconds = None
        marking = character.text_marking if voice.is_text else character.marking
        engine = character.text_engine if voice.is_text else character.engine
        rate = engine.sample_rate if engine else character.manifest.sample_rate
        notice: NoticePlace = "off"
        late = 0.0
        if self._notice is not None:
            with stages.stopwatch.stage("notice"):
                noticed, notice = await self._notice.add(
                    samples, rate, character.text_engine, self.threads.run
                )
            late = (len(noticed) - len(samples)) / rate if notice == "before" else 0.0
            samples = noticed
        with stages.enter("encoding", timed_as="encode"):
            encoded = await self.threads.run(
                encode_result, samples, rate, voice.options.output_format, marking
            )
        if self._credentials is not None:
            with stages.stopwatch.stage("sign"):
                encoded = await self._credentials.add(encoded, character.manifest, marking, notice)
        phones = (mark.later(late) for mark in marks if mark.kind == "phone")
        said = " ".join(f"{phone.text}:{phone.begin * 1000:.0f}" for phone in phones)
        return UnstoredResult(encoded, marking, seconds, said, missing)

    async def store(self, voice: Voice, made: UnstoredResult, stages: Stages) -> Outcome:
        """Store the result of a leased voice's present attempt; raises StorageUnavailableError."""
        with stages.enter("storing", timed_as="store"):
            result = await self._store(voice, made)
        watch = stages.stopwatch
        return Outcome(result, made.seconds, watch.milliseconds(), watch.laps, made.missing_seconds)

    async def discard_recording(self, voice: Voice) -> None:
        if voice.input is not None:
            await self._uploads.empty(voice.input.object, voice.input.generation)

    async def discard(self, voice: Voice) -> None:
        """Delete the result of the voice's present attempt, which may not be committed."""
        await self._results.delete_all(f"{voice.voice_id}/{voice.attempt}.")

    async def discard_all(self, voice_id: str) -> None:
        """Delete the results of all attempts at an erased voice."""
        await self._results.delete_all(f"{voice_id}/")

    async def discard_others(self, voice: Voice) -> None:
        """Delete the results of a finished voice's other attempts."""
        keep = voice.result.object if voice.result else ""
        await self._results.delete_all(f"{voice.voice_id}/", except_for=keep)

    async def _read(self, voice: Voice, upload: Input) -> bytes:
        most = self._limits.max_bytes
        if upload.bytes > most:
            raise too_large(upload.bytes, most)
        try:
            data = await self._uploads.read(upload.object, upload.generation, max_bytes=most)
        except ObjectMissingError as error:
            message = "The recording is gone; please record again."
            if voice.is_text:
                message = "The text is gone; please send it again."
            raise VoiceError(ErrorCode.SOURCE_MISSING, message) from error
        if len(data) > most:
            raise too_large(len(data), most)
        return data

    async def _decode(self, data: bytes, content_type: str, early: EarlyResult | None) -> Recording:
        recording = await early.decoded() if early else None
        if recording is None:
            recording = await self._decoder.decode(data, limits=self._limits)
        if not content_type_matches(recording.container, content_type):
            raise VoiceError(
                ErrorCode.CONTENT_TYPE_MISMATCH,
                f"The recording is {recording.container}, but was uploaded as "
                f"{content_type}; upload it with the recorder's content type.",
            )
        return recording

    async def _store(self, voice: Voice, made: UnstoredResult) -> Result:
        encoded = made.encoded
        name = result_name(voice.voice_id, voice.attempt, encoded.extension.removeprefix("."))

        async def sign() -> tuple[str, datetime]:
            filename = f"{voice.character}-{voice.voice_id[:8]}{encoded.extension}"
            return await self._results.sign_download(
                name, lifetime=self._result_lifetime, filename=filename
            )

        # Signing and writing run at the same time, because each is a slow request in the cloud.
        signing = asyncio.create_task(sign())
        try:
            try:
                facts = await self._results.write(
                    name,
                    io.BytesIO(encoded.data),
                    content_type=encoded.content_type,
                    size=len(encoded.data),
                )
            except ObjectExistsError:
                # The answer to our own write was lost: no other worker has this attempt.
                facts = await self._results.find(name)
            url, expires_at = await signing
        finally:
            signing.cancel()
            await asyncio.gather(signing, return_exceptions=True)
        return Result(
            bucket=facts.bucket,
            object=name,
            url=url,
            url_expires_at=expires_at,
            content_type=encoded.content_type,
            bytes=len(encoded.data),
            seconds=round(encoded.seconds, 3),
            sha256=hashlib.sha256(encoded.data).hexdigest(),
            synthetic=made.marking.tags(),
            phones=made.phones,
        )


def conversion_options(voice: Voice, ahead: EarlyPieces | None = None) -> ConversionOptions:
    return ConversionOptions(voice.options.pitch_shift, seed_of(voice), ahead)


def seed_of(voice: Voice) -> int:
    """Return a number that depends on the voice alone, so that all attempts sound the same."""
    return zlib.crc32(voice.voice_id.encode())


def too_large(size: int, most: int) -> VoiceError:
    message = f"The recording has {size} bytes; at most {most} are converted."
    return VoiceError(ErrorCode.TOO_LARGE, message)


async def speak(
    threads: ThreadWork,
    engine: TextEngine | None,
    data: bytes,
    options: SpeechOptions,
    max_seconds: float,
    *,
    pass_on: PassOn = stay,
) -> MarkedPiece:
    """Speak a text, at the engine's sample rate, with marks where the engine knows any.

    Each piece is computed in a thread of its own, so that cancelling ends the work after a piece.
    A text whose estimate exceeds the limit costs hardly more than reading it.

    Args:
        engine: the character's; None if the character takes no text.
        data: the text in UTF-8.
        pass_on: is called between two pieces, so that others take turns with a long text.

    Raises:
        VoiceError: the text cannot be spoken, or takes too long to say.
    """
    if engine is None:
        raise VoiceError(
            ErrorCode.TEXT_NOT_TAKEN,
            "The character converts recordings only; record your voice, or choose another one.",
        )
    most = round(max_seconds * engine.sample_rate)
    pieces: list[Samples] = []
    marks: list[Mark] = []
    begin = 0
    try:
        text = data.decode()
        if await threads.run(engine.estimate, text, options) > max_seconds:
            raise too_long(max_seconds)
        spoken = await threads.run(speak_marked, engine, text, options)
        while (piece := await threads.run(next, spoken, None)) is not None:
            marks += [mark.later(begin / engine.sample_rate) for mark in piece.marks]
            pieces.append(piece.samples)
            begin += len(piece.samples)
            if begin > most:
                raise too_long(max_seconds)
            await pass_on()
    except UnicodeDecodeError as error:
        message = "The text is not in UTF-8; send it again."
        raise VoiceError(ErrorCode.TEXT_UNREADABLE, message) from error
    except TextError as error:
        raise VoiceError(ErrorCode(error.code.value), error.message) from error
    return MarkedPiece(np.concatenate(pieces), tuple(marks))


def too_long(max_seconds: float) -> VoiceError:
    message = f"The text takes more than {max_seconds:g} seconds to say; send it in parts."
    return VoiceError(ErrorCode.TOO_LONG, message)
