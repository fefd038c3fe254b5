"""`/own-characters`: an owner makes a character of their own voice, shares it and deletes it."""

# ruff: noqa: FAST003 - `find_owned` takes the character_id of the address.

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Depends, Path, Request, Response

from functions.api import own_character_schemas as bodies
from functions.api import schemas
from functions.api.dependencies import PREFIX, Api, Authorization, Key, admit
from functions.api.own_characters import OwnCharacterService
from functions.api.problems import Problem
from shared.characters.own.own_character import OwnCharacter, is_to_train_again
from shared.characters.own.store import state_path

Id = Annotated[str, Path(max_length=64)]


async def own_character_service(api: Api) -> OwnCharacterService:
    assert api.own_characters is not None  # noqa: S101 - otherwise there are no such routes
    return api.own_characters


Service = Annotated[OwnCharacterService, Depends(own_character_service)]


async def find_owned(
    api: Api,
    service: Service,
    character_id: Id,
    key: Key = None,
    authorization: Authorization = None,
) -> OwnCharacter:
    return await service.find(character_id, key, await api.sign_in.uid_of(authorization))


# The character of an address, if the request comes from its owner.
Owned = Annotated[OwnCharacter, Depends(find_owned)]

router = APIRouter(
    prefix=f"{PREFIX}/own-characters",
    dependencies=[Depends(admit)],
    responses=schemas.problem_responses(401, 403, 422, 429, 503),
)


@router.post("", status_code=201, responses=schemas.problem_responses(408, 413, 415))
async def begin_own_character(
    request: Request,
    api: Api,
    service: Service,
    new: bodies.NewOwnCharacter,
    authorization: Authorization = None,
) -> bodies.OwnCharacterCreated:
    """Begin a character. The answer has the sentence of consent that its owner reads aloud."""
    uid = await api.sign_in.uid_of(authorization)
    if uid is None and api.sign_in.is_offered:
        raise Problem(403, "sign_in_needed", "Sign in to make a character of your own voice.")
    character, key = await service.begin(new, uid, api.client_name_of(request))
    assert character.expire_at is not None  # noqa: S101 - it has just begun
    return bodies.OwnCharacterCreated(
        character_id=character.character_id,
        key=key,
        sentence=character.sentence.text,
        expires_at=character.expire_at,
    )


@router.get("")
async def list_own_characters(
    api: Api, service: Service, authorization: Authorization = None
) -> bodies.OwnCharacterList:
    """List the characters of the signed-in visitor, newest first."""
    uid = await api.sign_in.uid_of(authorization)
    if uid is None:
        raise Problem(403, "sign_in_needed", "Sign in to list your characters.")
    return bodies.OwnCharacterList(
        characters=[
            bodies.ListedOwnCharacter(
                character_id=each.character_id,
                name=each.name,
                language=cast("Literal['en', 'ja']", each.sentence.language),
                status=each.status,
                is_usable=each.has_bundle,
                visibility=each.visibility,
                created_at=each.created_at,
            )
            for each in await service.of_owner(uid)
        ]
    )


@router.get("/{character_id}", responses=schemas.problem_responses(404))
async def show_own_character(character: Owned, service: Service) -> bodies.OwnCharacterFacts:
    """Return the progress of a character."""
    return await _facts(service, character)


@router.post(
    "/{character_id}/recordings",
    status_code=201,
    responses=schemas.problem_responses(404, 408, 409, 413, 415),
)
async def add_recording(
    character: Owned, service: Service, new: bodies.NewRecording
) -> bodies.RecordingCreated:
    """Sign the address for one recording."""
    recording_id, signed = await service.sign_recording(character, new)
    return bodies.RecordingCreated(
        recording_id=recording_id, upload=schemas.Upload(**asdict(signed))
    )


@router.delete(
    "/{character_id}/recordings/{recording_id}",
    status_code=204,
    responses=schemas.problem_responses(404, 409),
)
async def delete_recording(character: Owned, service: Service, recording_id: Id) -> Response:
    """Delete a recording, to speak it again."""
    await service.delete_recording(character, recording_id)
    return Response(status_code=204)


@router.post(
    "/{character_id}/training", status_code=202, responses=schemas.problem_responses(404, 409)
)
async def train_own_character(character: Owned, service: Service) -> bodies.OwnCharacterFacts:
    """Begin the training. From now on the recordings cannot change."""
    return await _facts(service, await service.train(character))


@router.patch("/{character_id}", responses=schemas.problem_responses(404, 408, 409, 413, 415))
async def change_own_character(
    character: Owned, service: Service, changes: bodies.OwnCharacterChange
) -> bodies.OwnCharacterFacts:
    """Rename, share or withdraw a character, or decide whether its recordings are kept."""
    return await _facts(service, await service.change(character, changes))


@router.post("/{character_id}/again", responses=schemas.problem_responses(404, 409))
async def reopen_own_character(
    request: Request, api: Api, character: Owned, service: Service
) -> bodies.OwnCharacterFacts:
    """Collect more recordings for a better training, where the owner has kept them."""
    reopened = await service.reopen(character, api.client_name_of(request))
    return await _facts(service, reopened)


@router.get("/{character_id}/card", responses=schemas.problem_responses(404))
async def show_card(character: Owned, service: Service) -> bodies.Card:
    """Return the measured quality of a character."""
    return await service.card(character)


@router.get(
    "/{character_id}/card/{sound}",
    response_class=Response,
    responses={200: {"content": {"audio/wav": {}}}, **schemas.problem_responses(404)},
)
async def play_card(
    character: Owned,
    service: Service,
    sound: Annotated[str, Path(pattern="^(own|other)-[1-9]-(original|converted)$")],
) -> Response:
    """Return a sound of the card: a recording or its conversion."""
    content = await service.card_sound(character, sound)
    return Response(content, media_type="audio/wav", headers={"Cache-Control": "no-store"})


@router.delete("/{character_id}", status_code=204, responses=schemas.problem_responses(404))
async def delete_own_character(character: Owned, service: Service) -> Response:
    """Delete a character, its recordings and its document now."""
    await service.delete(character)
    return Response(status_code=204)


async def _facts(service: OwnCharacterService, character: OwnCharacter) -> bodies.OwnCharacterFacts:
    failure = None
    if (error := character.error) is not None:
        failure = bodies.FailureFacts(
            code=error.code, message=error.message, recordings=list(error.recordings)
        )
    return bodies.OwnCharacterFacts(
        character_id=character.character_id,
        document=state_path(character.character_id),
        name=character.name,
        status=character.status,
        sentence=character.sentence.text,
        recordings=[
            bodies.RecordingFacts(recording_id=recording_id, kind=kind, bytes=each.bytes)
            for kind, recording_id, each in await service.recordings(character)
        ],
        stage=character.stage,
        share=character.share,
        error=failure,
        expires_at=character.expire_at,
        is_usable=character.has_bundle,
        visibility=character.visibility,
        allowed_visibilities=list(service.visibilities),
        keeps_recordings=character.keeps_recordings,
        can_train_again=is_to_train_again(character),
    )
