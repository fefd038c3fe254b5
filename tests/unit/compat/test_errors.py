"""Every dialect refuses for the same reasons, each in the form that its clients understand."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from wyoming.client import AsyncTcpClient
from wyoming.tts import Synthesize

from functions.compat import elevenlabs, openai
from functions.compat.service.keys import Access, AccessMiddleware, KeyLimits, Meter
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.voicevox import app as voicevox
from functions.compat.voicevox import queries, requests
from functions.compat.voicevox.speakers import VoicevoxSpeakers, speakers_of_characters
from functions.compat.voicevox.user_data import UserData
from shared.container.admission import Admission
from tests.support.compat import (
    KEY,
    client_of,
    say,
    served_socket,
    served_wyoming,
    socket_client,
    synthesis_of,
    text_speakers,
)
from tests.support.speakers import Sentences, a_speaker

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

KEYS = Access({"shop": KEY})
# The status, and the code for programs; 0 where the protocol has no status.
Refusal = tuple[int, str | None]

SHORT, LARGE, UNREAD = "はい。", "あ" * 70_000, "안녕하세요。"


class ErrorContract(ABC):
    """A dialect with the errors of sizes, limits and places."""

    too_large: ClassVar[Refusal]
    limit_reached: ClassVar[Refusal]
    busy: ClassVar[Refusal]

    @abstractmethod
    async def ask(self, synthesis: Synthesis, meter: Meter, *, text: str = SHORT) -> Refusal:
        """Ask for speech; a status of 200 stands for it."""

    async def test_what_is_too_large_too_much_or_too_many_is_refused(self) -> None:
        assert await self.ask(synthesis_of(), Meter(), text=LARGE) == self.too_large
        meter = Meter(KeyLimits(characters=0))
        assert await self.ask(synthesis_of(), meter) == self.limit_reached
        assert not meter.usage()
        full = Admission(running=1, waiting=0)
        with full.admit():
            assert await self.ask(Synthesis(full, SpeechLimits()), Meter()) == self.busy


class TextErrorContract(ErrorContract):
    """A dialect of texts, with the error of one of which nothing can be read."""

    unreadable: ClassVar[Refusal]

    async def test_a_text_of_which_nothing_is_read_is_refused(self) -> None:
        meter = Meter()

        assert await self.ask(synthesis_of(), meter, text=UNREAD) == self.unreadable
        assert not meter.usage()
        assert (await self.ask(synthesis_of(), Meter(), text=UNREAD + SHORT))[0] == 200


class HttpErrorContract(ErrorContract):
    """A dialect over HTTP, with the error of a missing key and a time to come again."""

    no_key: ClassVar[Refusal]
    header: ClassVar[dict[str, str]]
    refuse: ClassVar[Any]

    @abstractmethod
    def app(self, synthesis: Synthesis, meter: Meter) -> ASGIApp: ...

    @abstractmethod
    async def send(self, client: httpx.AsyncClient, *, text: str, **options: Any) -> Any: ...

    @abstractmethod
    def code_of(self, body: Any) -> str | None: ...

    async def ask(self, synthesis: Synthesis, meter: Meter, *, text: str = SHORT) -> Refusal:
        async with client_of(self.app(synthesis, meter)) as client:
            return self._read(await self.send(client, text=text))

    def _read(self, answer: httpx.Response) -> Refusal:
        if answer.status_code == 200:
            return 200, None
        assert answer.headers.get("retry-after") == ("1" if answer.status_code == 503 else None)
        return answer.status_code, self.code_of(answer.json())

    async def test_a_request_without_its_key_is_refused(self) -> None:
        app = AccessMiddleware(self.app(synthesis_of(), Meter()), KEYS, type(self).refuse)
        async with client_of(app) as client:
            refused = await self.send(client, text=SHORT)
            other = await self.send(client, text=SHORT, headers={"X-API-Key": "another"})
            served = await self.send(client, text=SHORT, headers=self.header)

        assert self._read(refused) == self._read(other) == self.no_key
        assert served.status_code == 200


class TestOpenAi(TextErrorContract, HttpErrorContract):
    unreadable = 400, "invalid_request_error text_unreadable"
    no_key = 401, "invalid_request_error invalid_api_key"
    too_large = 413, "invalid_request_error None"
    limit_reached = 429, "invalid_request_error insufficient_quota"
    busy = 503, "server_error busy"
    header: ClassVar = {"Authorization": f"Bearer {KEY}"}
    refuse = openai.refuse_openai

    def app(self, synthesis: Synthesis, meter: Meter) -> ASGIApp:
        return openai.build(text_speakers(Sentences()), synthesis, meter)

    async def send(self, client: httpx.AsyncClient, *, text: str, **options: Any) -> Any:
        body = {"model": "x", "voice": "mei", "input": text, "response_format": "pcm"}
        return await client.post("/v1/audio/speech", json=body, **options)

    def code_of(self, body: Any) -> str | None:
        assert body["error"]["message"]
        return f"{body['error']['type']} {body['error']['code']}"


class TestElevenLabs(TextErrorContract, HttpErrorContract):
    no_key = 401, "invalid_api_key"
    too_large = 413, "request_entity_too_large"
    limit_reached = 429, "quota_exceeded"
    busy = 503, "system_busy"
    unreadable = 400, "text_unreadable"
    header: ClassVar = {"xi-api-key": KEY}
    refuse = elevenlabs.refuse_elevenlabs

    def app(self, synthesis: Synthesis, meter: Meter) -> ASGIApp:
        nothing: Any = None
        return elevenlabs.build({}, text_speakers(Sentences()), nothing, synthesis, meter)

    async def send(self, client: httpx.AsyncClient, *, text: str, **options: Any) -> Any:
        body = {"text": text * 4 if text == LARGE else text}
        return await client.post("/v1/text-to-speech/mei", json=body, **options)

    def code_of(self, body: Any) -> str | None:
        assert body["detail"]["message"]
        return str(body["detail"]["status"])


class TestVoicevox(HttpErrorContract):
    no_key, too_large, limit_reached, busy = (401, None), (413, None), (429, None), (503, None)
    header: ClassVar = {"X-API-Key": KEY}
    refuse = requests.refuse

    def app(self, synthesis: Synthesis, meter: Meter) -> ASGIApp:
        speakers = speakers_of_characters({"mei": a_speaker("mei", Phrases())})
        self.style = speakers[0].styles[0].id
        voices = VoicevoxSpeakers(speakers)
        return voicevox.build(voicevox.VoicevoxServices(voices, UserData.open(), synthesis, meter))

    async def send(self, client: httpx.AsyncClient, *, text: str, **options: Any) -> Any:
        query = queries.query_of([], "あ").model_dump_json(by_alias=True).encode()
        content = b" " * (9 << 20) if text == LARGE else query
        address = f"/synthesis?speaker={self.style}"
        return await client.post(address, content=content, **options)

    def code_of(self, body: Any) -> str | None:
        assert isinstance(body["detail"], str)
        return None


class Phrases(Sentences):
    """Speaks phrases as a text."""

    def read_phrases(self, text: str) -> Any:
        del text
        return []

    def speak_phrases(self, phrases: Any, text: str | None, options: Any) -> Any:
        del phrases
        return self.speak(text or "", options)


class TestTextSocket(TextErrorContract):
    unreadable = 0, "text_unreadable"
    too_large = 0, "text_too_long"
    limit_reached = 0, "limit_reached"
    busy = 0, "busy"

    async def ask(self, synthesis: Synthesis, meter: Meter, *, text: str = SHORT) -> Refusal:
        async with (
            served_socket(Sentences(), synthesis=synthesis, meter=meter) as address,
            socket_client(address) as client,
        ):
            await say(client, "begin")
            for begin in range(0, len(text), 1_000):
                await say(client, "text", text=text[begin : begin + 1_000])
            await say(client, "end")
            async with asyncio.timeout(10):
                async for content in client:
                    message = json.loads(content) if isinstance(content, str) else {"type": ""}
                    if message["type"] == "error":
                        assert message["message"]
                        return 0, message["code"]
                    if message["type"] == "ended":
                        return 200, None
        raise AssertionError


class TestWyoming(TextErrorContract):
    unreadable = 0, "bad_request"
    too_large = 0, "bad_request"
    limit_reached = busy = 0, "busy"

    async def ask(self, synthesis: Synthesis, meter: Meter, *, text: str = SHORT) -> Refusal:
        async with (
            served_wyoming(Sentences(), synthesis, meter) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
            asyncio.timeout(10),
        ):
            await client.write_event(Synthesize(text[:20_000]).event())
            while (event := await client.read_event()) is not None:
                if event.type == "error":
                    assert event.data["text"]
                    return 0, event.data["code"]
                if event.type == "audio-stop":
                    return 200, None
        raise AssertionError
