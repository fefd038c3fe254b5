"""`/own-characters`: an owner makes a character of the own voice, shares it, and deletes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Request, Response

from functions.api import own_character_schemas, schemas
from functions.api.problems import Problem
from functions.api.schemas import KEY_HEADER
from shared.characters.own.own_character import OwnCharacter, is_to_train_again
from shared.characters.own.store import state_path

if TYPE_CHECKING:
    from functions.api.own_characters import OwnCharacterService
    from functions.api.visitors import SignIn

CharacterId = Annotated[str, Path(max_length=64)]
Authorization = Annotated[str | None, Header()]
PATH: Final = "/own-characters/{character_id}"
Find = Callable[[str, str | None, str | None], Awaitable[OwnCharacter]]
Key = Annotated[str | None, Header(alias=KEY_HEADER, max_length=100)]


def add_own_characters(
    router: APIRouter,
    making: OwnCharacterService,
    sign_in: SignIn,
    admitted: Any,
    client_of: Callable[[Request], str],
) -> None:
    """Add the routes."""

    async def find(character_id: str, key: str | None, authorization: str | None) -> OwnCharacter:
        return await making.find(character_id, key, await sign_in.uid_of(authorization))

    @router.post(
        "/own-characters",
        status_code=201,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 408, 413, 415, 422, 429, 503),
    )
    async def begin_own_character(
        request: Request,
        wish: own_character_schemas.NewOwnCharacter,
        authorization: Authorization = None,
    ) -> own_character_schemas.OwnCharacterCreated:
        """Begin a character; the answer has the sentence with which its owner agrees aloud."""
        uid = await sign_in.uid_of(authorization)
        if uid is None and sign_in.is_offered:
            raise Problem(403, "sign_in_needed", "Sign in to make a character of your own voice.")
        character, key = await making.begin(wish, uid, client_of(request))
        assert character.expire_at is not None  # noqa: S101 - it has just begun
        return own_character_schemas.OwnCharacterCreated(
            character_id=character.character_id,
            key=key,
            sentence=character.sentence.text,
            expires_at=character.expire_at,
        )

    @router.get(
        "/own-characters",
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 422, 429, 503),
    )
    async def list_own_characters(
        authorization: Authorization = None,
    ) -> own_character_schemas.OwnCharacterList:
        """List the characters of who has signed in, those that were begun last first."""
        uid = await sign_in.uid_of(authorization)
        if uid is None:
            raise Problem(403, "sign_in_needed", "Only who has signed in has a list of characters.")
        found = await making.of_owner(uid)
        return own_character_schemas.OwnCharacterList(characters=[_listed(each) for each in found])

    @router.get(
        PATH,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 422, 429, 503),
    )
    async def show_own_character(
        character_id: CharacterId, key: Key = None, authorization: Authorization = None
    ) -> own_character_schemas.OwnCharacterFacts:
        """Say how far a character is."""
        return await _facts(making, await find(character_id, key, authorization))

    @router.post(
        f"{PATH}/recordings",
        status_code=201,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
    )
    async def add_recording(
        character_id: CharacterId,
        wish: own_character_schemas.NewRecording,
        key: Key = None,
        authorization: Authorization = None,
    ) -> own_character_schemas.RecordingCreated:
        """Sign the address for one recording."""
        character = await find(character_id, key, authorization)
        recording_id, signed = await making.sign_recording(character, wish)
        return own_character_schemas.RecordingCreated(
            recording_id=recording_id, upload=schemas.Upload(**asdict(signed))
        )

    @router.delete(
        f"{PATH}/recordings/{{recording_id}}",
        status_code=204,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503),
    )
    async def delete_recording(
        character_id: CharacterId,
        recording_id: CharacterId,
        key: Key = None,
        authorization: Authorization = None,
    ) -> Response:
        """Delete a recording, to speak it again."""
        await making.delete_recording(await find(character_id, key, authorization), recording_id)
        return Response(status_code=204)

    @router.post(
        f"{PATH}/training",
        status_code=202,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503),
    )
    async def train_own_character(
        character_id: CharacterId, key: Key = None, authorization: Authorization = None
    ) -> own_character_schemas.OwnCharacterFacts:
        """Begin the training; from now on the recordings cannot change."""
        character = await making.train(await find(character_id, key, authorization))
        return await _facts(making, character)

    _add_ownership(router, making, find, admitted, client_of)


def _add_ownership(
    router: APIRouter,
    making: OwnCharacterService,
    find: Find,
    admitted: Any,
    client_of: Callable[[Request], str],
) -> None:
    """Add what its owner decides about a character that is there."""

    @router.patch(
        PATH,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
    )
    async def change_own_character(
        character_id: CharacterId,
        wish: own_character_schemas.OwnCharacterChange,
        key: Key = None,
        authorization: Authorization = None,
    ) -> own_character_schemas.OwnCharacterFacts:
        """Rename, share or withdraw a character, or decide what becomes of its recordings."""
        character = await find(character_id, key, authorization)
        return await _facts(making, await making.change(character, wish))

    @router.post(
        f"{PATH}/again",
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 409, 422, 429, 503),
    )
    async def reopen_own_character(
        request: Request,
        character_id: CharacterId,
        key: Key = None,
        authorization: Authorization = None,
    ) -> own_character_schemas.OwnCharacterFacts:
        """Collect more recordings for a better training, where the owner has kept them."""
        character = await find(character_id, key, authorization)
        return await _facts(making, await making.reopen(character, client_of(request)))

    @router.get(
        f"{PATH}/card",
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 422, 429, 503),
    )
    async def show_card(
        character_id: CharacterId, key: Key = None, authorization: Authorization = None
    ) -> own_character_schemas.Card:
        """Tell its owner how a character was measured."""
        return await making.card(await find(character_id, key, authorization))

    @router.get(
        f"{PATH}/card/{{sound}}",
        dependencies=[admitted],
        response_class=Response,
        responses={
            200: {"content": {"audio/wav": {}}},
            **schemas.problem_responses(401, 403, 404, 422, 429, 503),
        },
    )
    async def play_card(
        character_id: CharacterId,
        sound: Annotated[str, Path(pattern="^(own|other)-[1-9]-(original|converted)$")],
        key: Key = None,
        authorization: Authorization = None,
    ) -> Response:
        """Return a sound of the card, a recording or its conversion."""
        content = await making.card_sound(await find(character_id, key, authorization), sound)
        headers = {"Cache-Control": "no-store"}
        return Response(content, media_type="audio/wav", headers=headers)

    @router.delete(
        PATH,
        status_code=204,
        dependencies=[admitted],
        responses=schemas.problem_responses(401, 403, 404, 422, 429, 503),
    )
    async def delete_own_character(
        character_id: CharacterId, key: Key = None, authorization: Authorization = None
    ) -> Response:
        """Delete a character, its recordings and its document now."""
        await making.delete(await find(character_id, key, authorization))
        return Response(status_code=204)


def _listed(character: OwnCharacter) -> own_character_schemas.ListedOwnCharacter:
    return own_character_schemas.ListedOwnCharacter(
        character_id=character.character_id,
        name=character.name,
        language=character.sentence.language,
        status=character.status,
        is_usable=character.has_bundle,
        visibility=character.visibility,
        created_at=character.created_at,
    )


async def _facts(
    making: OwnCharacterService, character: OwnCharacter
) -> own_character_schemas.OwnCharacterFacts:
    error = character.error
    return own_character_schemas.OwnCharacterFacts(
        character_id=character.character_id,
        document=state_path(character.character_id),
        name=character.name,
        status=character.status,
        sentence=character.sentence.text,
        recordings=[
            own_character_schemas.RecordingFacts(
                recording_id=recording_id, kind=kind, bytes=each.bytes
            )
            for kind, recording_id, each in await making.recordings(character)
        ],
        stage=character.stage,
        share=character.share,
        error=None
        if error is None
        else own_character_schemas.FailureFacts(
            code=error.code, message=error.message, recordings=list(error.recordings)
        ),
        expires_at=character.expire_at,
        is_usable=character.has_bundle,
        visibility=character.visibility,
        allowed_visibilities=list(making.visibilities),
        keeps_recordings=character.keeps_recordings,
        can_train_again=is_to_train_again(character),
    )
