"""A visitor of the service: creates a voice, uploads, watches it and downloads the result."""

from __future__ import annotations

import asyncio
import errno
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx

from shared.runtime.process import read_at_most
from shared.voices.media import CONTENT_TYPES, SNIFF_BYTES, sniff
from shared.voices.voice import Options, Result, Status, create

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from shared.voices.voice import Voice

REQUEST_SECONDS: Final = 60.0

IDLE_SECONDS: Final = 1.0
"""How long a connection is kept for the next request: less than any of our servers keeps it.

A browser sends a request again whose connection is closed at that very moment, httpx does not.
"""

NEWS_SECONDS: Final = 600.0
"""How long a voice may stay without news.

A worker renews its lease every second, so a voice that is converted has news all the time.
"""


def open_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(limits=httpx.Limits(keepalive_expiry=IDLE_SECONDS))


class RequestRefusedError(Exception):
    """The service did not convert a recording."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    character: str | None = None
    pitch_shift: float | None = None  # in semitones; None for automatic
    output_format: str = "wav"


@dataclass(frozen=True, slots=True)
class TextRequest:
    text: str
    character: str | None = None
    output_format: str = "wav"
    speaking: Mapping[str, float] = field(default_factory=dict)


class WatchedVoices(Protocol):
    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        """Follow a voice: its current state, then each later one; None while it is missing."""


class ServedVoices:
    """The voices of a local cloud of another process, which its api tells of at their end."""

    def __init__(self, client: httpx.AsyncClient, api: str) -> None:
        self._client = client
        self._api = api

    @asynccontextmanager
    async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
        async with aclosing(self._end(voice_id)) as states:
            yield states

    async def _end(self, voice_id: str) -> AsyncGenerator[Voice | None]:
        url = f"{self._api}/api/v1/conversion/{voice_id}"
        while True:
            answer = await self._client.get(url, timeout=2 * REQUEST_SECONDS)
            if answer.status_code != httpx.codes.GATEWAY_TIMEOUT:
                break
        require_success(answer)
        told = answer.json()["result"]
        now = datetime.now(UTC)
        result = Result(
            bucket="",
            object="",
            url=told["url"],
            url_expires_at=now,
            content_type=told["content_type"],
            bytes=told["bytes"],
            seconds=told["seconds"],
            sha256=told["sha256"],
        )
        begun = create(voice_id, "", Options(), now=now)
        yield replace(begun, status=Status.DONE, result=result)


@dataclass(frozen=True, slots=True)
class Visitor:
    client: httpx.AsyncClient
    api: str
    voices: WatchedVoices
    news_seconds: float = NEWS_SECONDS

    async def create(self, wish: RecordingRequest, content_type: str) -> dict[str, Any]:
        body = {
            "character": wish.character,
            "pitch_shift": "auto" if wish.pitch_shift is None else wish.pitch_shift,
            "output_format": wish.output_format,
            "content_type": content_type,
        }
        return await self._create(body)

    async def create_text(self, wish: TextRequest) -> dict[str, Any]:
        body = {
            "text": wish.text,
            "character": wish.character,
            "output_format": wish.output_format,
        }
        return await self._create(body | dict(wish.speaking))

    async def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        response = await self.client.post(
            f"{self.api}/api/v1/voices", json=body, timeout=REQUEST_SECONDS
        )
        require_success(response)
        created: dict[str, Any] = response.json()
        return created

    async def upload(self, created: dict[str, Any], recording: bytes) -> None:
        upload = created["upload"]
        response = await self.client.request(
            upload["method"],
            upload["url"],
            headers=upload["headers"],
            content=recording,
            timeout=REQUEST_SECONDS,
        )
        require_success(response)

    async def watch(self, voice_id: str, seen: Callable[[Voice], None]) -> Voice:
        async with self.voices.watch(voice_id) as states:
            while True:
                voice = await self._next(states)
                if voice is None:
                    raise RequestRefusedError("unknown_voice", "the voice was deleted")
                seen(voice)
                if voice.status is Status.FAILED and voice.error is not None:
                    raise RequestRefusedError(voice.error.code, voice.error.message)
                if voice.status is Status.DONE:
                    return voice

    async def _next(self, states: AsyncIterator[Voice | None]) -> Voice | None:
        try:
            async with asyncio.timeout(self.news_seconds):
                return await anext(states)
        except TimeoutError:
            silent = f"nothing was heard of the voice for {self.news_seconds:g} s"
            raise RequestRefusedError("timed_out", silent) from None
        except StopAsyncIteration:
            raise RequestRefusedError("unavailable", "the listener ended") from None

    async def download(self, voice: Voice, path: Path) -> None:
        """Download the result into a file; the file appears only when it is complete."""
        if voice.result is None:
            raise RequestRefusedError("internal", "the voice is done without a result")
        response = await self.client.get(voice.result.url, timeout=REQUEST_SECONDS)
        require_success(response)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.part")
        draft.write_bytes(response.content)
        draft.replace(path)


def read_recording(path: Path, created: Mapping[str, Any]) -> bytes:
    try:
        return read_at_most(path, created["upload"]["max_bytes"])
    except OSError as error:
        code = "too_large" if error.errno == errno.EFBIG else "unreadable"
        raise RequestRefusedError(code, f"{path}: {error.strerror}") from error


def content_type_of(path: Path) -> str:
    """Return the media type of a recording, by its first bytes."""
    with path.open("rb") as file:
        container = sniff(file.read(SNIFF_BYTES))
    if container is None:
        detail = "not a recording in WebM, MP4, Ogg, WAV, MP3 or FLAC"
        raise RequestRefusedError("unsupported_format", detail)
    return CONTENT_TYPES[container][0]


def require_success(response: httpx.Response) -> None:
    if response.is_success:
        return
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        problem = response.json()
        raise RequestRefusedError(problem["code"], problem["detail"])
    raise RequestRefusedError(f"http_{response.status_code}", response.text[:300])
