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


@pytest.mark.parametrize("has_converted", [False, True])
async def test_a_warm_up_tells_whether_the_instance_is_cold(*, has_converted: bool) -> None:
    worker = FakeWorker()
    worker.has_converted = has_converted

    with log_book() as book:
        response = await ask(app_of(worker), "/warmup")

    assert (response.status_code, response.json()) == (200, {"cold": not has_converted})
    assert [entry["cold"] for entry in book.of("warmup")] == [not has_converted]


async def test_a_warm_up_loads_the_character_that_it_names() -> None:
    characters = FakeCharacters()

    response = await ask(app_of(FakeWorker(), characters=characters), "/warmup?character=ada")

    assert (response.status_code, characters.asked) == (200, ["ada"])


@pytest.mark.parametrize("error", [unknown_character("ada"), StorageUnavailableError("down")])
async def test_a_warm_up_answers_although_its_character_cannot_be_loaded(error: Exception) -> None:
    with log_book() as book:
        response = await ask(
            app_of(FakeWorker(), characters=FakeCharacters(error)), "/warmup?character=ada"
        )

    assert response.status_code == 200
    assert [entry["character"] for entry in book.of("character_not_warm")] == ["ada"]


async def test_an_instance_is_ready_when_its_decoder_is() -> None:
    assert (await ask(app_of(FakeWorker()), "/readyz")).status_code == 204
    assert (
        await ask(app_of(FakeWorker(), FakeDecoder(is_ready=False)), "/readyz")
    ).status_code == 503


async def test_a_stuck_instance_asks_to_be_replaced() -> None:
    worker = FakeWorker()
    assert (await ask(app_of(worker), "/healthz")).status_code == 204
    worker.is_stuck = True
    assert (await ask(app_of(worker), "/healthz")).status_code == 503
