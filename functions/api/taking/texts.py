"""Creating a voice from a text.

The text is stored as an object beside the recordings, under the name that follows from the
voice_id. So it is in no document, no message and no log, and whatever erases a recording erases it,
too. Its conversion is requested here. If the api ends before that, the sweep finds the text and
requests it.
"""

from __future__ import annotations

import asyncio
import io
import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from functions.api.answers.problems import Problem
from functions.api.taking.choice import Source
from shared.errors import PassingError
from shared.pipeline.conversion_requests import request_conversion
from shared.ports.store import ConflictError, StoreUnavailableError, UnknownVoiceError
from shared.process.logs import about_voice
from shared.voices import voice as voices_of
from shared.voices.media import TEXT_CONTENT_TYPE
from shared.voices.messages import ConversionMessage
from shared.voices.objects import ObjectExistsError, upload_name
from shared.voices.voice import ErrorCode, ForbiddenTransitionError, Input, Options, Speaking

if TYPE_CHECKING:
    from collections.abc import Callable

    from functions.api.answers.models import NewTextVoice
    from functions.api.taking.catalogue import Catalogue
    from functions.api.taking.choice import Visitor
    from shared.characters.manifest import CharacterManifest
    from shared.ports.bucket import Bucket
    from shared.ports.store import VoiceStore
    from shared.ports.topic import Publisher
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)


class TextIntake:
    """Creates voices from texts.

    Args:
        voices: the voices' documents.
        uploads: the bucket of the recordings and texts.
        conversions: opens the topic of the conversion messages, which recordings do without.
        catalogue: the characters.
        max_characters: the longest text.
        now: the clock of a new document's times.
    """

    def __init__(
        self,
        *,
        voices: VoiceStore,
        uploads: Bucket,
        conversions: Callable[[], Publisher],
        catalogue: Catalogue,
        max_characters: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._voices = voices
        self._uploads = uploads
        self._conversions = conversions
        self._catalogue = catalogue
        self._max_characters = max_characters
        self._now = now

    async def create(
        self, wish: NewTextVoice, visitor: Visitor, client: str | None = None
    ) -> Voice:
        """Create the document of a voice, store its text, and request its conversion.

        Raises:
            StoreUnavailableError, StorageUnavailableError, PublishError: no voice was created.
            Problem: `unknown_character`, `text_not_taken`, `unknown_style`, `nothing_to_say`,
                `text_too_long` or `text_unreadable`.
        """
        character = await self._catalogue.choose(wish.character, Source.TEXT, visitor)
        _require_style(character, wish.style)
        text = self._speakable(wish.text)
        options = Options(
            output_format=wish.output_format,
            content_type=TEXT_CONTENT_TYPE,
            speaking=Speaking(**wish.model_dump(exclude={"text", "character", "output_format"})),
        )
        voice = voices_of.create(
            voices_of.new_voice_id(),
            character.id,
            options,
            now=self._now(),
            owner=visitor.uid,
            client=client,
        )
        # on_upload erases an object without a document, so the document comes first.
        await self._voices.create(voice)
        with about_voice(voice.voice_id):
            try:
                await self._request(voice, await self._store(voice, text))
            except PassingError:
                await self._forget(voice)
                raise
        return voice

    def _speakable(self, text: str) -> bytes:
        """Return a text in UTF-8, unless it is certain that no character speaks it."""
        if len(text) > self._max_characters:
            detail = (
                f"The text has {len(text)} characters; at most {self._max_characters} are spoken"
                f" at once. Send it in parts."
            )
            raise Problem(422, ErrorCode.TEXT_TOO_LONG, detail)
        if not text.strip():
            detail = "The text is empty; write what is to be said."
            raise Problem(422, ErrorCode.NOTHING_TO_SAY, detail)
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            detail = "The text holds half of a character, a lone surrogate; send it as Unicode."
            raise Problem(422, ErrorCode.TEXT_UNREADABLE, detail) from error

    async def _store(self, voice: Voice, text: bytes) -> Input:
        name = upload_name(voice.voice_id)
        try:
            facts = await self._uploads.write(
                name, io.BytesIO(text), content_type=TEXT_CONTENT_TYPE, size=len(text)
            )
        except ObjectExistsError:  # the answer to our own write was lost
            facts = await self._uploads.find(name)
        return Input(facts.bucket, facts.name, facts.generation, facts.content_type, facts.bytes)

    async def _request(self, voice: Voice, upload: Input) -> None:
        try:
            await request_conversion(
                await asyncio.to_thread(self._conversions),
                self._voices,
                ConversionMessage(voice.voice_id, upload, voice.client),
                partial(voices_of.queue, upload=upload),
                attributes={"uploaded_at": self._now().isoformat()},
            )
        except (ForbiddenTransitionError, UnknownVoiceError) as error:
            # The conversion began before this record, or the visitor deleted the voice.
            _LOG.info("not recorded as queued: %s", error, extra={"event": "overtaken"})
        except (ConflictError, StoreUnavailableError) as error:
            # The message is published, and the conversion needs no record of it.
            _LOG.warning("not recorded as queued: %s", error, extra={"event": "not_recorded"})

    async def _forget(self, voice: Voice) -> None:
        """Erase a voice that nobody is told of; what is left of it is erased after a day."""
        try:
            await self._voices.delete(voice.voice_id)
            await self._uploads.delete(upload_name(voice.voice_id))
        except PassingError as error:
            _LOG.warning("not erased: %s", error, extra={"event": "not_erased"})


def _require_style(character: CharacterManifest, style: int) -> None:
    if style and style not in {each.id for each in character.styles}:
        detail = f"{character.id!r} has no style {style}; GET /api/v1/characters lists its styles."
        raise Problem(422, ErrorCode.UNKNOWN_STYLE, detail)
