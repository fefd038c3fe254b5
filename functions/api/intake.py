"""Intake of voices: their creation, their recordings or texts, and their erasure."""

from __future__ import annotations

import asyncio
import io
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from functions.api.catalogue import VoiceSource
from functions.api.problems import Problem
from shared.pipeline import request_conversion, store_recording
from shared.runtime.logs import about_voice
from shared.voices import voice as voices_of
from shared.voices.media import (
    SNIFF_BYTES,
    TEXT_CONTENT_TYPE,
    UnsupportedContentTypeError,
    content_type_matches,
    parse_content_type,
    sniff,
)
from shared.voices.messages import ConversionMessage
from shared.voices.objects import ObjectExistsError, ObjectMissingError, upload_name
from shared.voices.store import ConflictError, StoreUnavailableError, UnknownVoiceError, change
from shared.voices.voice import (
    ErrorCode,
    ForbiddenTransitionError,
    Options,
    PassingError,
    Speaking,
    Status,
    VoiceError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import BinaryIO

    from functions.api.catalogue import Catalogue
    from functions.api.schemas import NewTextVoice, NewVoice
    from functions.api.visitors import CharacterChooser
    from shared.characters.manifest import CharacterManifest
    from shared.ports import Bucket, Publisher
    from shared.voices.objects import SignedUpload
    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VoiceIntake:
    """Creates voices for recordings and texts, accepts the recordings, and erases voices."""

    voices: VoiceStore
    uploads: Bucket
    results: Bucket
    conversions: Callable[[], Publisher]
    catalogue: Catalogue
    max_bytes: int
    max_characters: int
    upload_lifetime: timedelta
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def create(
        self, requested: NewVoice, visitor: CharacterChooser, client: str | None = None
    ) -> tuple[Voice, SignedUpload]:
        """Create the document of a voice, and sign the address to upload its recording to."""
        character, is_owner = await self.catalogue.choose(
            requested.character, VoiceSource.SPEECH, visitor
        )
        content_type = requested.content_type
        pitch_shift = None if requested.pitch_shift == "auto" else requested.pitch_shift
        if pitch_shift is not None and character.pitch is None:
            detail = (
                f"The pitch of {character.id!r} cannot be set; leave pitch_shift out, "
                f"or set it to 'auto'."
            )
            raise Problem(422, "pitch_not_adjustable", detail)
        try:
            parse_content_type(content_type)
        except UnsupportedContentTypeError as error:
            raise Problem(415, "unsupported_content_type", str(error)) from error
        options = Options(pitch_shift, requested.output_format, content_type)
        voice = self._new_voice(character, options, visitor, client, owns_character=is_owner)
        signed = await self.uploads.sign_upload(
            upload_name(voice.voice_id),
            content_type=content_type,
            max_bytes=self.max_bytes,
            lifetime=self.upload_lifetime,
        )
        await self.voices.create(voice)
        return voice, signed

    def _new_voice(
        self,
        character: CharacterManifest,
        options: Options,
        visitor: CharacterChooser,
        client: str | None,
        *,
        owns_character: bool,
    ) -> Voice:
        return voices_of.create(
            voices_of.new_voice_id(),
            character.id,
            options,
            now=self.now(),
            owner=visitor.uid,
            owns_character=owns_character,
            client=client,
        )

    async def accept_recording(
        self, voice: Voice, content: BinaryIO, size: int, content_type: str
    ) -> None:
        """Store a recording that came through the api, as a signed upload would.

        If it is refused because of its content, the voice is failed, too.
        """
        detail = "This voice has its recording already; create a new voice for another one."
        already_uploaded = Problem(409, "already_uploaded", detail)
        if voice.status is not Status.WAITING or voice.is_text:
            raise already_uploaded
        error = self._fault_of(content, size, content_type)
        if error is not None:
            await self.fail(voice, error)
            status = 413 if error.code is ErrorCode.TOO_LARGE else 415
            raise Problem(status, error.code, error.message)
        try:
            await store_recording(
                self.uploads, voice.voice_id, content, size=size, content_type=content_type
            )
        except ObjectExistsError:
            raise already_uploaded from None

    async def erase(self, voice_id: str) -> None:
        await self.voices.delete(voice_id)
        # Not deleted, because the address for its upload may still work, and would work again.
        await self.uploads.empty(upload_name(voice_id))
        await self.results.delete_all(f"{voice_id}/")

    async def erase_objects(self, voice_id: str) -> None:
        """Delete the objects that an interrupted deletion of a voice may have left."""
        name = upload_name(voice_id)
        # Only what is there is emptied, so that nobody can make objects of invented names.
        with suppress(ObjectMissingError):
            facts = await self.uploads.find(name)
            if facts.bytes:
                await self.uploads.empty(name, facts.generation)
        await self.results.delete_all(f"{voice_id}/")

    async def expire(self, voice: Voice) -> None:
        """Fail a voice whose upload address has expired unused.

        If its recording exists, its event or message is late, and sweep puts the voice back.
        """
        await self._end_without_recording(voice, voices_of.expire)

    async def fail(self, voice: Voice, error: VoiceError) -> None:
        """Fail a voice that still waits for its recording.

        If a recording is stored already, its event is on the way, and the voice does not fail.
        """
        await self._end_without_recording(voice, partial(voices_of.refuse, error=error))

    async def _end_without_recording(
        self, voice: Voice, transition: Callable[[Voice, datetime], Voice]
    ) -> None:
        try:
            await self.uploads.find(upload_name(voice.voice_id))
        except ObjectMissingError:
            # If the recording was uploaded or the voice deleted meanwhile, it does not fail.
            with suppress(ForbiddenTransitionError, UnknownVoiceError):
                await change(self.voices, voice.voice_id, transition)

    def is_expired(self, voice: Voice, now: datetime) -> bool:
        return voices_of.upload_has_expired(voice, now, self.upload_lifetime)

    def _fault_of(self, content: BinaryIO, size: int, content_type: str) -> VoiceError | None:
        if size > self.max_bytes:
            message = f"The recording has {size} bytes; at most {self.max_bytes} are accepted."
            return VoiceError(ErrorCode.TOO_LARGE, message)
        if size == 0:
            return VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it has no bytes.")
        container = sniff(content.read(SNIFF_BYTES))
        content.seek(0)
        if container is None:
            message = "The file is not a recording in WebM, MP4, Ogg, WAV, MP3 or FLAC."
            return VoiceError(ErrorCode.UNSUPPORTED_FORMAT, message)
        if not content_type_matches(container, content_type):
            message = f"The file is {container}, but was announced as {content_type[:80]!r}."
            return VoiceError(ErrorCode.CONTENT_TYPE_MISMATCH, message)
        return None

    async def create_text(
        self, requested: NewTextVoice, visitor: CharacterChooser, client: str | None = None
    ) -> tuple[Voice, CharacterManifest]:
        """Create the document of a voice, store its text, and request its conversion.

        Returns the voice and its character. `PassingError` if a service does not answer; then the
        client knows of no voice.
        """
        character, is_owner = await self.catalogue.choose(
            requested.character, VoiceSource.TEXT, visitor
        )
        style = requested.style
        if style and style not in {each.id for each in character.styles}:
            styles = "GET /api/v1/characters lists its styles"
            detail = f"{character.id!r} has no style {style}; {styles}."
            raise Problem(422, ErrorCode.UNKNOWN_STYLE, detail)
        text = self._encode(requested.text)
        speaking = requested.model_dump(exclude={"text", "character", "output_format"})
        options = Options(
            output_format=requested.output_format,
            content_type=TEXT_CONTENT_TYPE,
            speaking=Speaking(**speaking),
        )
        voice = self._new_voice(character, options, visitor, client, owns_character=is_owner)
        # on_upload erases an object without a document, so the document comes first.
        await self.voices.create(voice)
        with about_voice(voice.voice_id):
            try:
                await self._request(voice, text)
            except PassingError:
                await self._forget(voice)
                raise
        return voice, character

    def _encode(self, text: str) -> bytes:
        """Encode a text as UTF-8, unless it is certain that no character speaks it."""
        if len(text) > self.max_characters:
            detail = (
                f"The text has {len(text)} characters; at most {self.max_characters} are spoken"
                f" at once. Send it in parts."
            )
            raise Problem(422, ErrorCode.TEXT_TOO_LONG, detail)
        if not text.strip():
            detail = "The text is empty; send the words to speak."
            raise Problem(422, ErrorCode.NOTHING_TO_SAY, detail)
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            detail = "The text holds half of a character, a lone surrogate; send it as Unicode."
            raise Problem(422, ErrorCode.TEXT_UNREADABLE, detail) from error

    async def _request(self, voice: Voice, text: bytes) -> None:
        name = upload_name(voice.voice_id)
        try:
            facts = await self.uploads.write(
                name, io.BytesIO(text), content_type=TEXT_CONTENT_TYPE, size=len(text)
            )
        except ObjectExistsError:  # the answer to our own write was lost
            facts = await self.uploads.find(name)
        upload = facts.as_input()
        try:
            await request_conversion(
                await asyncio.to_thread(self.conversions),
                self.voices,
                ConversionMessage(voice.voice_id, upload, voice.client),
                partial(voices_of.queue, upload=upload),
                attributes={"uploaded_at": self.now().isoformat()},
            )
        except (ForbiddenTransitionError, UnknownVoiceError) as error:
            # The conversion began before this record, or the visitor deleted the voice.
            _LOG.info("not recorded as queued: %s", error, extra={"event": "overtaken"})
        except (ConflictError, StoreUnavailableError) as error:
            # The message is published, and the conversion needs no record of it.
            _LOG.warning("not recorded as queued: %s", error, extra={"event": "not_recorded"})

    async def _forget(self, voice: Voice) -> None:
        """Erase a voice that no client knows; anything left of it is erased after a day."""
        try:
            # Without the document nothing would find a text that is still there; with it, sweep
            # has the text converted, and converters empty what they have converted.
            await self.uploads.delete(upload_name(voice.voice_id))
            await self.voices.delete(voice.voice_id)
            # The message may be out although the topic did not say so, and the text converted.
            await self.results.delete_all(f"{voice.voice_id}/")
        except PassingError as error:
            _LOG.warning("not erased: %s", error, extra={"event": "not_erased"})
