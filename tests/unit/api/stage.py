"""The api with everything around it in memory."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from functions.api.app import create_app
from functions.api.catalogue import Catalogue
from functions.api.dependencies import Dependencies, LiveOffer
from functions.api.intake import VoiceIntake
from functions.api.limits import RequestLimits, VoiceOutcomes
from functions.api.uploads import FORM_OVERHEAD_BYTES, UploadMemory
from functions.api.verifications import Verifications
from functions.api.visitors import AppCheck, ClientNames, SignIn
from functions.api.warmup import WarmUp, no_identity
from shared.characters.manifest import OfferedStyle, TextSpeech
from shared.ports import TokenRefusedError
from shared.speech.text.languages import LANGUAGES
from tests.support.buckets import MemoryBucket
from tests.support.characters import a_manifest
from tests.support.messages import RecordingPublisher
from tests.support.stores import CountedVoices

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from fastapi import FastAPI

    from functions.api.own_characters import OwnCharacterAccess, OwnCharacterService
    from shared.characters.bucket import CharacterBucket
    from shared.ports import TokenVerifier
    from shared.voices.voice import Voice

SITE = "https://site.example"
MAX_BYTES = 100_000
MAX_CHARACTERS = 50
SPOKEN = TextSpeech(styles=(OfferedStyle(id=7, name="Calm"),))
FORM = {"Content-Type": "multipart/form-data; boundary=b"}
WEBM = b"\x1aE\xdf\xa3" + b"\x00" * 8 + b"\x42\x82\x84webm" + b"\x00" * 200


class UidTokens:
    """Takes `Bearer uid:NAME` for a sign-in of NAME."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        prefix = "Bearer uid:"
        if authorization is None or not authorization.startswith(prefix):
            raise TokenRefusedError("the token is not valid")
        return {"sub": authorization.removeprefix(prefix)}


class WatchedVoices(CountedVoices):
    def __init__(self) -> None:
        super().__init__()
        self.watchers = 0
        self._joined = asyncio.Event()

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        async with super().watch(voice_id) as states:
            self.watchers += 1
            self._joined.set()
            try:
                yield states
            finally:
                self.watchers -= 1

    async def until_watched(self, times: int = 1) -> None:
        while self.watchers < times:
            self._joined.clear()
            await self._joined.wait()


class FakeConvert:
    def __init__(self) -> None:
        self.warm_ups = 0
        self.characters: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.url.copy_with(query=None) == "http://convert.test/warmup"
        self.warm_ups += 1
        self.characters.append(request.url.params.get("character"))
        return httpx.Response(200, json={"cold": True})


@dataclass
class ApiStage:
    folder: Path = Path()
    verifier: TokenVerifier | None = None
    app_check: TokenVerifier | None = None
    wait_seconds: float = 5.0
    languages: Sequence[str] = tuple(LANGUAGES)
    limits: RequestLimits = field(
        default_factory=lambda: RequestLimits(per_minute=0, waiting=0, trusted_proxies=0)
    )
    in_progress: int = 0
    upload_memory: UploadMemory = field(
        default_factory=lambda: UploadMemory(MAX_BYTES + FORM_OVERHEAD_BYTES)
    )
    voices: WatchedVoices = field(default_factory=WatchedVoices)
    uploads: MemoryBucket = field(default_factory=lambda: MemoryBucket("uploads"))
    results: MemoryBucket = field(default_factory=lambda: MemoryBucket("results"))
    conversions: RecordingPublisher = field(default_factory=RecordingPublisher)
    bucket: CharacterBucket | None = None
    container: FakeConvert = field(default_factory=FakeConvert)
    verifying: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(503)
    live: LiveOffer | None = None
    own_characters: OwnCharacterService | None = None
    own: OwnCharacterAccess | None = None
    allowed_hosts: tuple[str, ...] = ("*",)

    def app(self) -> FastAPI:
        characters = {
            "mei": a_manifest("mei", self.folder, portrait="portrait.svg"),
            "taro": a_manifest("taro", self.folder),
            "sango": a_manifest("sango").model_copy(update={"takes": "text", "text": SPOKEN}),
            "nobu": a_manifest("nobu").model_copy(update={"takes": "both"}),
            "kobo": a_manifest("kobo", self.folder).model_copy(update={"pitch": None}),
        }
        catalogue = Catalogue(characters, self.bucket, own=self.own)
        intake = VoiceIntake(
            voices=self.voices,
            uploads=self.uploads,
            results=self.results,
            conversions=lambda: self.conversions,
            catalogue=catalogue,
            max_bytes=MAX_BYTES,
            max_characters=MAX_CHARACTERS,
            upload_lifetime=timedelta(minutes=10),
        )
        outcomes = VoiceOutcomes(
            self.voices, self.limits, in_progress=self.in_progress, seconds=1200.0
        )
        warm_up = httpx.AsyncClient(transport=httpx.MockTransport(self.container))
        dependencies = Dependencies(
            voices=self.voices,
            intake=intake,
            warm_up=WarmUp(warm_up, "http://convert.test/warmup", no_identity),
            sign_in=SignIn(self.verifier),
            app_check=AppCheck(self.app_check),
            limits=self.limits,
            outcomes=outcomes,
            client_names=ClientNames("a key of the tests"),
            upload_memory=self.upload_memory,
            verifications=Verifications(
                httpx.AsyncClient(transport=httpx.MockTransport(self.verifying)),
                "http://convert.test/verifications",
                no_identity,
                self.upload_memory,
            ),
            catalogue=catalogue,
            wait_seconds=self.wait_seconds,
            seconds=(2.0, 8.0),
            max_upload_bytes=MAX_BYTES,
            live=self.live,
            own_characters=self.own_characters,
            max_text_characters=MAX_CHARACTERS,
            languages=self.languages,
        )
        return create_app(dependencies, (SITE,), self.allowed_hosts)

    async def add(self, voice: Voice) -> Voice:
        await self.voices.create(voice)
        return voice

    async def voice(self, voice_id: str) -> Voice:
        return (await self.voices.read(voice_id)).voice

    @cached_property
    def http(self) -> httpx.AsyncClient:
        """A client of an api that is built, as the stage is then, at the first request."""
        transport = httpx.ASGITransport(self.app(), raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://api.test")


def problem(response: httpx.Response, status: int, code: str) -> str:
    """Check that an answer is this problem, and return its sentence."""
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert set(body) == {"type", "title", "status", "code", "detail"}
    assert (body["status"], body["type"]) == (status, f"urn:voice-avatar:problem:{code}")
    assert body["title"]
    detail: str = body["detail"]
    assert detail
    return detail
