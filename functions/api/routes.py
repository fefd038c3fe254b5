"""The endpoints."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Path, Request, Response

from functions.api import schemas, uploads
from functions.api.catalogue import CharacterChooser
from functions.api.problems import Problem, RetrySchedule
from functions.api.result_wait import (
    final_voice_or_problem,
    wait_until_final,
    while_connected,
)
from functions.api.schemas import KEY_HEADER
from functions.api.verifications import add_verifications
from shared.ports import NO_TRACES, TokenRefusedError
from shared.runtime.logs import about_voice
from shared.voices.store import (
    UnknownVoiceError,
    UnreadableVoiceError,
    conversion_answer,
    document_path,
)
from shared.voices.voice import ErrorCode, InvalidVoiceIdError, VoiceError, parse_voice_id

if TYPE_CHECKING:
    from datetime import timedelta

    from functions.api.catalogue import Catalogue
    from functions.api.intake import TextIntake, VoiceIntake
    from functions.api.limits import RequestLimits, VoiceOutcomes
    from functions.api.own_characters import OwnCharacterService
    from functions.api.uploads import UploadMemory
    from functions.api.verifications import Verifications
    from functions.api.visitors import AppCheck, ClientNames, SignIn
    from functions.api.warmup import WarmUp
    from shared.characters.manifest import CharacterManifest
    from shared.ports import Traces
    from shared.voices.store import VoiceStore
    from shared.voices.tickets import Tickets
    from shared.voices.voice import Voice

_LOG = logging.getLogger(__name__)

PORTRAIT_SECONDS: Final = 300
"""How long a browser may keep a portrait."""

VoiceId = Annotated[
    str,
    Path(
        description="a version 4 UUID",
        max_length=64,
        json_schema_extra={"pattern": schemas.VOICE_ID_PATTERN},
    ),
]
Authorization = Annotated[str | None, Header()]
Key = Annotated[str | None, Header(alias=KEY_HEADER, max_length=100)]
"""The secret of an own character's owner."""


@dataclass(frozen=True, slots=True)
class LiveOffer:
    """What a client needs to know to send its recording while the visitor speaks."""

    url: str
    tickets: Tickets
    lifetime: timedelta


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the endpoints depend on.

    Attributes:
        app_check: refuses requests without an App Check token, where App Check is on.
        live: offers a WebSocket to the service `live`; None where there is none.
        making: makes characters of visitors' own voices; None where they are not allowed.
    """

    voices: VoiceStore
    intake: VoiceIntake
    texts: TextIntake
    warm_up: WarmUp
    sign_in: SignIn
    app_check: AppCheck
    limits: RequestLimits
    outcomes: VoiceOutcomes
    client_names: ClientNames
    upload_memory: UploadMemory
    verifications: Verifications
    catalogue: Catalogue
    wait_seconds: float
    seconds: tuple[float, float]
    max_upload_bytes: int
    max_text_characters: int
    live: LiveOffer | None = None
    making: OwnCharacterService | None = None
    line: RetrySchedule = field(default_factory=RetrySchedule)
    traces: Traces = NO_TRACES


def create_router(dependencies: Dependencies) -> APIRouter:
    """Return the routes of the HTTP API."""
    router = APIRouter(prefix="/api/v1")
    _add_voices(router, dependencies)
    _add_waiting(router, dependencies)
    _add_characters(router, dependencies)
    add_verifications(
        router, dependencies.verifications, dependencies.limits, _admitted(dependencies)
    )
    if dependencies.making is not None:
        # Imported here: the other starts do without.
        from functions.api.own_character_routes import add_own_characters  # noqa: PLC0415

        add_own_characters(
            router,
            dependencies.making,
            dependencies.sign_in,
            _admitted(dependencies),
            lambda each: dependencies.client_names.name_of(dependencies.limits.client_of(each)),
        )
    return router


def _add_voices(router: APIRouter, dependencies: Dependencies) -> None:
    admitted = [_admitted(dependencies)]

    @router.post(
        "/voices",
        status_code=201,
        dependencies=[_admitted_in_turn(dependencies)],
        responses=schemas.problem_responses(400, 401, 403, 408, 413, 415, 422, 429, 503),
    )
    async def create_voice(
        request: Request,
        wish: schemas.VoiceRequest | None = None,
        authorization: Authorization = None,
        own_character_key: Key = None,
    ) -> schemas.VoiceCreated:
        """Create a voice, and warm the conversion up.

        Call it when the recording begins, or with a text, which is then converted at once.
        """
        begin = time.time()
        uid = await dependencies.sign_in.uid_of(authorization)
        visitor = CharacterChooser(uid, own_character_key)
        client = dependencies.limits.client_of(request)
        await dependencies.outcomes.update_outcomes(client)
        name = dependencies.client_names.name_of(client)
        to_load = dependencies.catalogue.to_load(wish.character if wish else None)
        async with dependencies.warm_up.sending(to_load):
            if isinstance(wish, schemas.NewTextVoice):
                voice, upload = await dependencies.texts.create(wish, visitor, name), None
            else:
                voice, signed = await dependencies.intake.create(
                    wish or schemas.NewVoice(), visitor, name
                )
                upload = schemas.Upload(**asdict(signed))
        dependencies.outcomes.remember(client, voice.voice_id)
        dependencies.line.served()
        with about_voice(voice.voice_id):
            kind = "text" if voice.is_text else "recording"
            extra = {"event": "voice_created", "character": voice.character, "kind": kind}
            _LOG.info("voice created", extra=extra)
        facts = {"character": voice.character, "kind": kind}
        dependencies.traces.add(voice.voice_id, "voice", begin, facts=facts, is_first=True)
        return schemas.VoiceCreated(
            voice_id=voice.voice_id,
            upload=upload,
            document=document_path(voice.voice_id),
            live=None if upload is None else _live(dependencies.live, voice.voice_id),
        )

    @router.put(
        "/voices",
        status_code=202,
        dependencies=admitted,
        responses=schemas.problem_responses(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
        openapi_extra=uploads.OPENAPI,
    )
    async def upload_recording(
        request: Request, authorization: Authorization = None
    ) -> schemas.UploadAccepted:
        """Accept a recording from a client that cannot upload to the signed address."""
        with (
            dependencies.limits.uploading(request),
            dependencies.upload_memory.reserve(request) as reservation,
        ):
            try:
                form = await uploads.read_form(request, dependencies.max_upload_bytes, reservation)
            except uploads.OversizedRecordingError as error:
                raise await _refuse_oversized(
                    dependencies, error.voice_id, authorization
                ) from error
            with form.content, about_voice(form.voice_id):
                voice = await _read(dependencies, form.voice_id, authorization)
                await dependencies.intake.accept_recording(
                    voice, form.content, form.size, form.content_type
                )
        return schemas.UploadAccepted(
            voice_id=voice.voice_id, document=document_path(voice.voice_id)
        )

    @router.delete(
        "/voices/{voice_id}",
        status_code=204,
        dependencies=admitted,
        responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503),
    )
    async def delete_voice(voice_id: VoiceId, authorization: Authorization = None) -> Response:
        """Erase recording, result and document now."""
        try:
            dependencies.outcomes.erased(await _read(dependencies, voice_id, authorization))
        except UnknownVoiceError:
            await dependencies.intake.erase_objects(voice_id)
            raise
        except UnreadableVoiceError:
            # The owner is unknown, so that where visitors sign in anybody could erase it.
            if dependencies.sign_in.is_offered:
                raise
        with about_voice(voice_id):
            await dependencies.intake.erase(voice_id)
            _LOG.info("voice erased", extra={"event": "voice_deleted"})
        return Response(status_code=204)


def _add_waiting(router: APIRouter, dependencies: Dependencies) -> None:
    @router.get(
        "/conversion/{voice_id}",
        dependencies=[_admitted(dependencies)],
        responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503, 504),
    )
    async def wait_for_conversion(
        request: Request, voice_id: VoiceId, authorization: Authorization = None
    ) -> schemas.ConversionDone:
        """Warm the conversion up and wait until the voice is done. Call again after a 504."""
        wanted, seconds = parse_voice_id(voice_id), dependencies.wait_seconds

        async def check(voice: Voice) -> None:
            await dependencies.sign_in.require_owner(voice, authorization)
            if not voice.status.is_final:
                if dependencies.intake.is_expired(voice, datetime.now(UTC)):
                    await dependencies.intake.expire(voice)
                to_load = dependencies.catalogue.to_load(voice.character)
                await dependencies.warm_up.send(to_load)

        with dependencies.limits.waiting(request), dependencies.traces.step(wanted, "wait"):
            final = await while_connected(
                request, lambda: wait_until_final(dependencies.voices, wanted, seconds, check)
            )
        dependencies.outcomes.ended(final)
        return schemas.ConversionDone(**conversion_answer(final_voice_or_problem(final)))


def _add_characters(router: APIRouter, dependencies: Dependencies) -> None:
    @router.get("/characters")
    async def list_characters() -> schemas.Characters:
        """List the characters: name, credit, licence, terms, and what each takes."""
        characters = await dependencies.catalogue.list()
        facts = [_character_facts(each, dependencies) for each in characters.values()]
        return schemas.Characters(characters=facts)

    @router.get(
        "/characters/{character}",
        dependencies=[_admitted(dependencies)],
        responses=schemas.problem_responses(401, 403, 404, 422, 429, 503),
    )
    async def show_character(
        character: Annotated[str, Path(max_length=64)],
        authorization: Authorization = None,
        own_character_key: Key = None,
    ) -> schemas.CharacterFacts:
        """Tell of one character, a visitor's own one included, if this visitor may use it."""
        uid = await dependencies.sign_in.uid_of(authorization)
        visitor = CharacterChooser(uid, own_character_key)
        found = await dependencies.catalogue.find(character, visitor)
        return _character_facts(found, dependencies)

    @router.get(
        "/characters/{character}/portrait",
        response_class=Response,
        responses={
            200: {"content": {"image/svg+xml": {}}},
            **schemas.problem_responses(404, 422, 503),
        },
    )
    async def show_portrait(character: Annotated[str, Path(max_length=64)]) -> Response:
        """Return a character's portrait."""
        portrait = await dependencies.catalogue.portrait(character)
        if portrait is None:
            raise Problem(404, ErrorCode.UNKNOWN_CHARACTER, "There is no portrait of this name.")
        # A portrait is the voice owner's file; this header stops any script and form in it.
        headers = {
            "Content-Security-Policy": "default-src 'none'; img-src data:; style-src"
            " 'unsafe-inline'; sandbox",
            "Cache-Control": f"max-age={PORTRAIT_SECONDS}",
        }
        return Response(portrait, headers=headers, media_type="image/svg+xml")


def _admitted(dependencies: Dependencies) -> Any:
    """Return a FastAPI dependency that counts and checks requests before their body is read."""

    async def admit(request: Request) -> None:
        dependencies.limits.admit(request)
        await dependencies.app_check.require(request)

    return Depends(admit)


def _admitted_in_turn(dependencies: Dependencies) -> Any:
    """Return the same for requests that may wait a little."""

    async def admit(request: Request) -> None:
        await dependencies.limits.admit_in_turn(request)
        await dependencies.app_check.require(request)

    return Depends(admit)


async def _read(dependencies: Dependencies, voice_id: str, authorization: str | None) -> Voice:
    """Return a voice that this visitor may use."""
    snapshot = await dependencies.voices.read(parse_voice_id(voice_id))
    await dependencies.sign_in.require_owner(snapshot.voice, authorization)
    return snapshot.voice


async def _refuse_oversized(
    dependencies: Dependencies, voice_id: str, authorization: str | None
) -> Problem:
    message = f"The recording is larger than the {dependencies.max_upload_bytes} bytes accepted."
    # If it is no voice of this visitor, nothing is failed, and the answer is the same.
    with suppress(InvalidVoiceIdError, UnknownVoiceError, TokenRefusedError, Problem):
        voice = await _read(dependencies, voice_id, authorization)
        await dependencies.intake.fail(voice, VoiceError(ErrorCode.TOO_LARGE, message))
    return Problem(413, ErrorCode.TOO_LARGE, message)


def _live(offer: LiveOffer | None, voice_id: str) -> schemas.Live | None:
    if offer is None:
        return None
    ticket = offer.tickets.sign(voice_id, offer.lifetime)
    return schemas.Live(url=offer.url, ticket=ticket.text, expires_at=ticket.expires_at)


def _character_facts(
    manifest: CharacterManifest, dependencies: Dependencies
) -> schemas.CharacterFacts:
    least, most = dependencies.seconds
    return schemas.CharacterFacts(
        id=manifest.id,
        name=schemas.Text(ja=manifest.name.ja, en=manifest.name.en),
        credit=manifest.credit,
        credits=schemas.Text(ja=manifest.credit_ja or manifest.credit, en=manifest.credit),
        licence=schemas.Licence(name=manifest.licence.name, url=manifest.licence.url),
        terms_url=manifest.terms_url,
        forbidden_uses=manifest.forbidden_uses,
        colour=manifest.preview.colour,
        portrait_url=f"/api/v1/characters/{manifest.id}/portrait"
        if manifest.preview.portrait
        else None,
        face=None
        if manifest.preview.face is None
        else schemas.FaceFacts(**manifest.preview.face.model_dump()),
        takes=manifest.takes,
        text=_text_facts(manifest, dependencies) if manifest.takes_text else None,
        limits=schemas.SecondsLimits(
            min_seconds=max(least, manifest.limits.min_seconds),
            max_seconds=min(most, manifest.limits.max_seconds),
        ),
    )


def _text_facts(manifest: CharacterManifest, dependencies: Dependencies) -> schemas.TextFacts:
    styles = [
        schemas.StyleFacts(id=each.id, name=each.name, speaker=each.speaker)
        for each in manifest.styles
    ]
    return schemas.TextFacts(max_characters=dependencies.max_text_characters, styles=styles)
