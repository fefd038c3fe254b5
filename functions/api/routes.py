"""The endpoints for voices and characters."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Path, Request, Response

from functions.api import schemas, uploads
from functions.api.dependencies import PREFIX, Api, Authorization, Key, admit, admit_in_turn
from functions.api.problems import ClientGoneError, Problem
from functions.api.verifications import OPENAPI as VERIFICATION_OPENAPI
from functions.api.visitors import CharacterChooser
from shared.ports import TokenRefusedError
from shared.runtime.logs import about_voice
from shared.speech.text.languages import divide, language_code
from shared.voices.store import (
    StoreUnavailableError,
    UnknownVoiceError,
    UnreadableVoiceError,
    conversion_answer,
    document_path,
)
from shared.voices.voice import ErrorCode, InvalidVoiceIdError, Status, VoiceError, parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from functions.api.dependencies import Dependencies
    from shared.characters.manifest import CharacterManifest
    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)

PORTRAIT_SECONDS: Final = 300  # for which a browser may cache a portrait
CURRENT_STATE_SECONDS: Final = 10.0  # in which the store must send the state of a voice

VoiceId = Annotated[
    str,
    Path(
        description="a version 4 UUID",
        max_length=64,
        json_schema_extra={"pattern": schemas.VOICE_ID_PATTERN},
    ),
]
CharacterId = Annotated[str, Path(max_length=64)]


router = APIRouter(prefix=PREFIX)


@router.post(
    "/voices",
    status_code=201,
    dependencies=[Depends(admit_in_turn)],
    responses=schemas.problem_responses(400, 401, 403, 408, 413, 415, 422, 429, 503),
)
async def create_voice(
    request: Request,
    api: Api,
    body: schemas.VoiceRequest | None = None,
    authorization: Authorization = None,
    own_character_key: Key = None,
) -> schemas.VoiceCreated:
    """Create a voice, and warm the conversion up.

    Call it when the recording begins, or with a text, which is then converted at once.
    """
    begin = time.time()
    visitor = CharacterChooser(await api.sign_in.uid_of(authorization), own_character_key)
    client = api.limits.client_of(request)
    await api.outcomes.update_outcomes(client)
    name = api.client_names.name_of(client)
    unread = ""
    async with api.warm_up.sending(api.catalogue.to_load(body.character if body else None)):
        if isinstance(body, schemas.NewTextVoice):
            voice, character = await api.intake.create_text(body, visitor, name)
            upload, reads = None, api.languages_of(character)
            unread = divide(body.text, reads, language_code(body.language or "")).unread_names
        else:
            voice, signed = await api.intake.create(body or schemas.NewVoice(), visitor, name)
            upload = schemas.Upload(**asdict(signed))
    api.outcomes.remember(client, voice.voice_id)
    api.retry_schedule.count_served()
    facts = {"character": voice.character, "kind": "text" if voice.is_text else "recording"}
    with about_voice(voice.voice_id):
        extra = {"event": "voice_created", "character": voice.character, "kind": facts["kind"]}
        _LOG.info("voice created", extra=extra)
    api.traces.add(voice.voice_id, "voice", begin, facts=facts, is_first=True)
    return schemas.VoiceCreated(
        voice_id=voice.voice_id,
        upload=upload,
        document=document_path(voice.voice_id),
        live=None if upload is None or api.live is None else api.live.to(voice.voice_id),
        unread=unread or None,
    )


@router.put(
    "/voices",
    status_code=202,
    dependencies=[Depends(admit)],
    responses=schemas.problem_responses(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
    openapi_extra=uploads.OPENAPI,
)
async def upload_recording(
    request: Request, api: Api, authorization: Authorization = None
) -> schemas.UploadAccepted:
    """Accept a recording from a client that cannot upload to the signed address."""
    with api.limits.uploading(request), api.upload_memory.reserve(request) as reservation:
        try:
            form = await uploads.read_form(request, api.max_upload_bytes, reservation)
        except uploads.OversizedRecordingError as error:
            raise await _refuse_oversized(api, error.voice_id, authorization) from error
        with form.content, about_voice(form.voice_id):
            voice = await api.read_voice(form.voice_id, authorization)
            await api.intake.accept_recording(voice, form.content, form.size, form.content_type)
    return schemas.UploadAccepted(voice_id=voice.voice_id, document=document_path(voice.voice_id))


async def _refuse_oversized(api: Dependencies, voice_id: str, authorization: str | None) -> Problem:
    message = f"The recording is larger than the {api.max_upload_bytes} bytes accepted."
    # If it is no voice of this visitor, nothing is failed, and the answer is the same.
    with suppress(InvalidVoiceIdError, UnknownVoiceError, TokenRefusedError, Problem):
        voice = await api.read_voice(voice_id, authorization)
        await api.intake.fail(voice, VoiceError(ErrorCode.TOO_LARGE, message))
    return Problem(413, ErrorCode.TOO_LARGE, message)


@router.delete(
    "/voices/{voice_id}",
    status_code=204,
    dependencies=[Depends(admit)],
    responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503),
)
async def delete_voice(
    api: Api, voice_id: VoiceId, authorization: Authorization = None
) -> Response:
    """Erase recording, result and document now."""
    try:
        api.outcomes.count_erased(await api.read_voice(voice_id, authorization))
    except UnknownVoiceError:
        await api.intake.erase_objects(voice_id)
        raise
    except UnreadableVoiceError:
        # The owner is unknown, so that where visitors sign in anybody could erase it.
        if api.sign_in.is_offered:
            raise
    with about_voice(voice_id):
        await api.intake.erase(voice_id)
        _LOG.info("voice erased", extra={"event": "voice_deleted"})
    return Response(status_code=204)


@router.get(
    "/conversion/{voice_id}",
    dependencies=[Depends(admit)],
    responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503, 504),
)
async def wait_for_conversion(
    request: Request, api: Api, voice_id: VoiceId, authorization: Authorization = None
) -> schemas.ConversionDone:
    """Warm the conversion up and wait until the voice is done. Call again after a 504."""
    wanted = parse_voice_id(voice_id)

    async def check(voice: Voice) -> None:
        await api.sign_in.require_owner(voice, authorization)
        if not voice.status.is_final:
            if api.intake.is_expired(voice, datetime.now(UTC)):
                await api.intake.expire(voice)
            await api.warm_up.send(api.catalogue.to_load(voice.character))

    with api.limits.waiting(request), api.traces.step(wanted, "wait"):
        voice = await while_connected(
            request, lambda: wait_until_final(api.voices, wanted, api.wait_seconds, check)
        )
    api.outcomes.count_ended(voice)
    if voice.status is Status.FAILED and voice.error is not None:
        raise Problem(422, voice.error.code, voice.error.message)
    return schemas.ConversionDone(**conversion_answer(voice))


async def wait_until_final(
    voices: VoiceStore,
    voice_id: str,
    seconds: float,
    check: Callable[[Voice], Awaitable[None]],
) -> Voice:
    """Return a voice as soon as it is done or failed; `check` gets its current state first."""
    try:
        async with asyncio.timeout(seconds) as patience, voices.watch(voice_id) as states:
            try:
                async with asyncio.timeout(CURRENT_STATE_SECONDS):
                    voice = await anext(states)
            except TimeoutError as error:
                message = "the store did not send the state of the voice"
                raise StoreUnavailableError(message) from error
            if voice is not None:
                await check(voice)
            while voice is not None and not voice.status.is_final:
                voice = await anext(states)
            if voice is None:
                raise UnknownVoiceError(voice_id)
            return voice
    except TimeoutError:
        if not patience.expired():
            raise
    detail = "The voice is not done yet; call again to go on waiting."
    raise Problem(504, "still_converting", detail, {"Retry-After": "1"})


async def while_connected(request: Request, work: Callable[[], Awaitable[Voice]]) -> Voice:
    """Do some work, but cancel it and raise `ClientGoneError` when the client disconnects."""
    work_task = asyncio.ensure_future(work())
    disconnection = asyncio.ensure_future(_wait_for_disconnection(request))
    try:
        await asyncio.wait({work_task, disconnection}, return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            raise ClientGoneError
        return work_task.result()
    finally:
        for task in (work_task, disconnection):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _wait_for_disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.get("/characters")
async def list_characters(api: Api) -> schemas.Characters:
    """List the characters: name, credit, licence, terms, and what each takes."""
    characters = await api.catalogue.list()
    return schemas.Characters(characters=[_facts(each, api) for each in characters.values()])


@router.get(
    "/characters/{character}",
    dependencies=[Depends(admit)],
    responses=schemas.problem_responses(401, 403, 404, 422, 429, 503),
)
async def show_character(
    api: Api,
    character: CharacterId,
    authorization: Authorization = None,
    own_character_key: Key = None,
) -> schemas.CharacterFacts:
    """Describe one character, which may be a visitor's own one if this visitor may use it."""
    visitor = CharacterChooser(await api.sign_in.uid_of(authorization), own_character_key)
    return _facts(await api.catalogue.find(character, visitor), api)


@router.get(
    "/characters/{character}/portrait",
    response_class=Response,
    responses={
        200: {"content": {"image/svg+xml": {}}},
        **schemas.problem_responses(404, 422, 503),
    },
)
async def show_portrait(api: Api, character: CharacterId) -> Response:
    """Return a character's portrait."""
    portrait = await api.catalogue.portrait(character)
    if portrait is None:
        raise Problem(404, ErrorCode.UNKNOWN_CHARACTER, "There is no portrait of this name.")
    # A portrait is the voice owner's file; this header stops any script and form in it.
    headers = {
        "Content-Security-Policy": "default-src 'none'; img-src data:; style-src"
        " 'unsafe-inline'; sandbox",
        "Cache-Control": f"max-age={PORTRAIT_SECONDS}",
    }
    return Response(portrait, headers=headers, media_type="image/svg+xml")


@router.post(
    "/verifications",
    dependencies=[Depends(admit)],
    responses=schemas.problem_responses(401, 403, 408, 413, 415, 422, 429, 503),
    openapi_extra=VERIFICATION_OPENAPI,
)
async def verify_file(request: Request, api: Api) -> schemas.Verification:
    """Find out whether a file was made here, by its signed statement and its watermark.

    Send the file as the body, with any media type of sound or `application/octet-stream`.
    It is not stored.
    """
    with api.limits.uploading(request):
        return await api.verifications.verify(request)


def _facts(manifest: CharacterManifest, api: Dependencies) -> schemas.CharacterFacts:
    preview, said, (least, most) = manifest.preview, manifest.description, api.seconds
    text = None
    if manifest.takes_text:
        styles = [
            schemas.StyleFacts(id=each.id, name=each.name, speaker=each.speaker)
            for each in manifest.styles
        ]
        text = schemas.TextFacts(
            max_characters=api.max_text_characters,
            styles=styles,
            languages=api.languages_of(manifest),
        )
    return schemas.CharacterFacts(
        id=manifest.id,
        name=schemas.Text(ja=manifest.name.ja, en=manifest.name.en),
        description=schemas.Text(ja=said.ja, en=said.en) if said else None,
        credit=manifest.credit,
        credits=schemas.Text(ja=manifest.credit_ja or manifest.credit, en=manifest.credit),
        licence=schemas.Licence(name=manifest.licence.name, url=manifest.licence.url),
        terms_url=manifest.terms_url,
        forbidden_uses=manifest.forbidden_uses,
        colour=preview.colour,
        portrait_url=f"{PREFIX}/characters/{manifest.id}/portrait" if preview.portrait else None,
        face=None if preview.face is None else schemas.FaceFacts(**preview.face.model_dump()),
        takes=manifest.takes,
        text=text,
        limits=schemas.SecondsLimits(
            min_seconds=max(least, manifest.limits.min_seconds),
            max_seconds=min(most, manifest.limits.max_seconds),
        ),
    )
