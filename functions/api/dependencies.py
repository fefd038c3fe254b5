"""The dependencies of the api's endpoints, and the checks before each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Header, Request

from functions.api import schemas
from functions.api.problems import RetrySchedule
from functions.api.schemas import KEY_HEADER
from shared.ports import NO_TRACES
from shared.speech.text.languages import LANGUAGES
from shared.voices.voice import parse_voice_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from functions.api.catalogue import Catalogue
    from functions.api.intake import VoiceIntake
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

PREFIX: Final = "/api/v1"

Authorization = Annotated[str | None, Header()]
Key = Annotated[str | None, Header(alias=KEY_HEADER, max_length=100)]


@dataclass(frozen=True, slots=True)
class LiveOffer:
    url: str
    tickets: Tickets
    lifetime: timedelta

    def to(self, voice_id: str) -> schemas.Live:
        ticket = self.tickets.sign(voice_id, self.lifetime)
        return schemas.Live(url=self.url, ticket=ticket.text, expires_at=ticket.expires_at)


@dataclass(frozen=True, slots=True)
class Dependencies:
    voices: VoiceStore
    intake: VoiceIntake
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
    seconds: tuple[float, float]  # the limits of a recording
    max_upload_bytes: int
    max_text_characters: int
    languages: Sequence[str] = tuple(LANGUAGES)  # that a character may speak
    live: LiveOffer | None = None
    own_characters: OwnCharacterService | None = None
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    traces: Traces = NO_TRACES

    def client_name_of(self, request: Request) -> str:
        return self.client_names.name_of(self.limits.client_of(request))

    def languages_of(self, character: CharacterManifest) -> list[str]:
        return [each for each in character.text_languages if each in self.languages]

    async def read_voice(self, voice_id: str, authorization: str | None) -> Voice:
        """Read a voice that this visitor may use."""
        voice = (await self.voices.read(parse_voice_id(voice_id))).voice
        await self.sign_in.require_owner(voice, authorization)
        return voice


async def dependencies_of(request: Request) -> Dependencies:
    found: Dependencies = request.app.state.dependencies
    return found


Api = Annotated[Dependencies, Depends(dependencies_of)]


async def admit(request: Request, api: Api) -> None:
    """Count and check a request before its body is read."""
    api.limits.admit(request)
    await api.app_check.require(request)


async def admit_in_turn(request: Request, api: Api) -> None:
    """Count and check a request that may wait a little for its turn."""
    await api.limits.admit_in_turn(request)
    await api.app_check.require(request)
