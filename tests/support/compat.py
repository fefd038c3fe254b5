"""Servers and clients of the dialects of `compat`, for their tests."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
from websockets.asyncio.client import connect

from functions.compat.service.http_messages import SlowReadersMiddleware
from functions.compat.service.keys import Access, AccessMiddleware, Meter, refuse
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.service.texts import TextSpeaker, TextSpeakers, names_of, text_speakers_of
from functions.compat.text_socket import PATH, SUBPROTOCOL, SpeechSockets, build
from functions.compat.wyoming import WyomingServer
from shared.container.admission import Admission
from shared.container.protocols import limit_clients
from tests.support.asgi_server import served
from tests.support.speakers import a_speaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from websockets.asyncio.client import ClientConnection

    from tests.support.speakers import Sentences

KEY = "0123456789abcdef"


def client_of(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30)


async def call(
    app: Any,
    address: str,
    body: bytes,
    send: Callable[[Any], Awaitable[None]],
    *,
    stays: float = math.inf,
    **request: Any,
) -> None:
    """Call an application below HTTP.

    Args:
        stays: how often the client is still there when it is asked.
    """
    path, _, query = address.partition("?")
    is_sent, asked = False, 0

    async def receive() -> Any:
        nonlocal is_sent, asked
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": body, **request}
        asked += 1
        if asked <= stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    kind = b"multipart/form-data; boundary=b" if body.startswith(b"--b") else b"application/json"
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"content-type", kind), (b"host", b"localhost")],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)


def synthesis_of(running: int = 1, waiting: int = 4, **limits: Any) -> Synthesis:
    return Synthesis(Admission(running=running, waiting=waiting), SpeechLimits(**limits))


def text_speaker(engine: Sentences, style: int = 0, style_name: str = "") -> TextSpeaker:
    character = a_speaker("mei", engine)
    assert character.text_engine is not None
    name = f"mei:{style_name}" if style_name else "mei"
    return TextSpeaker(name, character, character.text_engine, style, style_name)


def text_speakers(engine: Sentences, *names: str, aliases: tuple[str, ...] = ()) -> TextSpeakers:
    characters = {name: a_speaker(name, engine) for name in names or ("mei",)}
    return TextSpeakers(text_speakers_of(characters), names_of(aliases))


@asynccontextmanager
async def served_socket(
    engine: Sentences,
    access: Access | None = None,
    synthesis: Synthesis | None = None,
    **options: Any,
) -> AsyncIterator[str]:
    """Serve text in pieces; its address."""
    sockets = SpeechSockets(text_speakers(engine), synthesis or synthesis_of(waiting=8), **options)
    app = AccessMiddleware(build(sockets), access or Access(), refuse)
    async with served(SlowReadersMiddleware(app, 0.5), limit_clients) as port:
        yield f"ws://127.0.0.1:{port}{PATH}"


@asynccontextmanager
async def socket_client(
    address: str, *subprotocols: str, **options: Any
) -> AsyncIterator[ClientConnection]:
    offered = [SUBPROTOCOL, *subprotocols]
    async with connect(address, subprotocols=offered, **options) as client:  # type: ignore[arg-type] # a NewType
        yield client


async def say(client: ClientConnection, kind: str, **fields: Any) -> None:
    await client.send(json.dumps({"type": kind, **fields}))


async def heard(client: ClientConnection, last: str) -> tuple[list[dict[str, Any]], bytes]:
    """The messages up to one of a kind, and the sound among them."""
    messages: list[dict[str, Any]] = []
    sound = b""
    async with asyncio.timeout(10):
        while not messages or messages[-1]["type"] != last:
            message = await client.recv()
            if isinstance(message, bytes):
                sound += message
            else:
                messages.append(json.loads(message))
    return messages, sound


@asynccontextmanager
async def served_wyoming(
    engine: Sentences,
    synthesis: Synthesis | None = None,
    meter: Meter | None = None,
    unread_seconds: float = 20.0,
) -> AsyncIterator[int]:
    """Serve one character with two styles; the port."""
    voices = TextSpeakers([text_speaker(engine), text_speaker(engine, 7, "happy")], {})
    synthesis = synthesis or synthesis_of(waiting=8)
    async with WyomingServer(voices, synthesis, meter, unread_seconds).listen(
        "127.0.0.1", 0
    ) as port:
        yield port
