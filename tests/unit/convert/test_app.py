from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import httpx
import pytest

from functions.convert.routes import convert_routes
from shared.conversion.characters import unknown_character
from shared.conversion.composition import ConvertingApp
from shared.ports import NoTokenNeeded
from shared.voices.objects import StorageUnavailableError
from tests.support.conversion import FakeCharacters, FakeDecoder
from tests.support.logs import log_book
from tests.support.messages import envelope

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from shared.conversion.worker import Worker
    from shared.speech.decoding.decoder import Decoder
    from shared.voices.messages import PushMessage


class FakeWorker:
    def __init__(self) -> None:
        self.has_converted = False
        self.is_stuck = False
        self.messages: list[PushMessage] = []

    async def handle(self, message: PushMessage) -> None:
        self.messages.append(message)

    async def drain(self) -> None:
        raise AssertionError("nothing stops")


def app_of(
    worker: FakeWorker,
    decoder: FakeDecoder | None = None,
    characters: FakeCharacters | None = None,
) -> Starlette:
    routes = convert_routes(cast("Worker", worker), characters or FakeCharacters(), NoTokenNeeded())
    return ConvertingApp(routes, cast("Worker", worker), cast("Decoder", decoder or FakeDecoder()))


async def ask(app: Starlette, path: str, body: bytes | None = None) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://convert.test") as client:
        return await client.request("GET" if body is None else "POST", path, content=body)


async def test_a_push_reaches_the_worker() -> None:
    worker = FakeWorker()
    response = await ask(app_of(worker), "/push", json.dumps(envelope(b"x")).encode())

    assert (response.status_code, [m.data for m in worker.messages]) == (204, [b"x"])


@pytest.mark.parametrize("error", [None, unknown_character("ada"), StorageUnavailableError("down")])
async def test_a_warm_up_loads_its_character_if_it_can_and_tells_whether_the_instance_is_cold(
    error: Exception | None,
) -> None:
    worker, characters = FakeWorker(), FakeCharacters(error)
    app = app_of(worker, characters=characters)

    with log_book() as book:
        first = await ask(app, "/warmup")
        worker.has_converted = True
        second = await ask(app, "/warmup?character=ada")

    assert [each.json() for each in (first, second)] == [{"cold": True}, {"cold": False}]
    assert [entry["cold"] for entry in book.of("warmup")] == [True, False]
    assert characters.asked == ["ada"]
    not_warm = [entry["character"] for entry in book.of("character_not_warm")]
    assert not_warm == ([] if error is None else ["ada"])


async def test_an_instance_is_ready_when_its_decoder_is_and_asks_to_be_replaced_if_stuck() -> None:
    worker, decoder = FakeWorker(), FakeDecoder()
    app = app_of(worker, decoder)
    statuses = [(await ask(app, path)).status_code for path in ("/readyz", "/healthz")]
    worker.is_stuck, decoder.is_ready = True, False
    statuses += [(await ask(app, path)).status_code for path in ("/readyz", "/healthz")]

    assert statuses == [204, 204, 503, 503]
