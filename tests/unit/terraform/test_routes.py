from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from functions.compat import elevenlabs, openai, text_socket
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.voicevox.app import VoicevoxServices, build
from functions.compat.voicevox.speakers import VoicevoxSpeakers
from functions.compat.voicevox.user_data import UserData
from functions.convert.routes import convert_routes
from functions.sweep.main import create_app as create_sweep
from shared.container.admission import Admission
from shared.conversion.characters import BuiltInCharacters
from shared.conversion.composition import ConvertingApp
from shared.ports import TokenRefusedError
from shared.runtime.push import push_app
from tests.support.conversion import FakeDecoder
from tests.unit.api.stage import ApiStage
from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from fastapi import FastAPI
    from starlette.applications import Starlette

    from functions.sweep.sweeper import Sweeper
    from shared.conversion.worker import Worker
    from shared.speech.decoding.decoder import Decoder
    from shared.voices.messages import PushMessage
    from tests.unit.terraform.reading import TerraformModule


class IdleWorker:
    has_converted = False
    is_stuck = False

    async def handle(self, message: PushMessage) -> None:
        raise AssertionError(f"a push without a token was let in: {message}")

    async def drain(self) -> None:
        raise AssertionError("nothing stops")


class IdleSweeper:
    async def sweep(self) -> Mapping[str, int]:
        raise AssertionError("a request without a token was let in")


class Doorkeeper:
    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        raise TokenRefusedError(f"nobody comes in with {authorization}")


def convert_with(idle: IdleWorker) -> Starlette:
    worker = cast("Worker", idle)
    routes = convert_routes(worker, BuiltInCharacters({}), Doorkeeper())
    return ConvertingApp(routes, worker, cast("Decoder", FakeDecoder()))


@pytest.fixture
def convert() -> Starlette:
    return convert_with(IdleWorker())


@pytest.fixture
def function() -> Starlette:
    return push_app(Doorkeeper(), IdleWorker().handle)


@pytest.fixture
def sweep() -> Starlette:
    return create_sweep(cast("Sweeper", IdleSweeper()), Doorkeeper())


@pytest.fixture
def api(tmp_path: Path) -> FastAPI:
    return ApiStage(tmp_path).app()


async def ask(app: Starlette, method: str, path: str) -> int:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="https://service") as client:
        return (await client.request(method, path, content=b"{}")).status_code


@pytest.mark.parametrize(("is_stuck", "answer"), [(False, 204), (True, 503)])
async def test_the_liveness_probe_asks_a_route_that_answers_unless_the_container_is_stuck(
    terraform: TerraformModule, *, is_stuck: bool, answer: int
) -> None:
    idle = IdleWorker()
    idle.is_stuck = is_stuck
    service = terraform.resources["google_cloud_run_v2_service", "convert"]
    probe = service["template"][0]["containers"][0]["liveness_probe"][0]

    assert await ask(convert_with(idle), "GET", probe["http_get"][0]["path"]) == answer
    assert await ask(convert_with(idle), "GET", "/warmup") == 200


async def test_messages_are_pushed_to_routes_that_ask_for_a_token(
    terraform: TerraformModule, convert: Starlette, function: Starlette
) -> None:
    receivers = terraform.locals["receivers"]
    dead_letters = terraform.locals["dead_letter_receiver"]["path"]

    assert await ask(convert, "POST", receivers["conversions"]["path"]) == 401
    assert await ask(function, "POST", receivers["uploads"]["path"]) == 401
    assert await ask(function, "POST", dead_letters) == 401
    assert await ask(convert, "POST", "/elsewhere") == 404


async def test_the_scheduler_calls_a_route_that_asks_for_a_token(
    terraform: TerraformModule, sweep: Starlette
) -> None:
    job = terraform.resources["google_cloud_scheduler_job", "sweep"]["http_target"][0]
    service = '${google_cloudfunctions2_function.this["sweep"].service_config[0].uri}'

    assert job["uri"].startswith(service)
    assert await ask(sweep, job["http_method"], job["uri"].removeprefix(service)) == 401
    assert "oidc_token" in job


def test_beside_the_page_the_api_keeps_every_path_that_it_serves(
    terraform: TerraformModule, api: FastAPI
) -> None:
    kept = terraform.locals["api_paths"]
    served = {route.path for route in api.routes if isinstance(route, APIRoute | Route)}

    assert served
    assert [
        path
        for path in served
        if path not in kept and not any(path.startswith(one[:-1]) for one in kept if one[-1] == "*")
    ] == []


def test_behind_the_load_balancer_every_route_of_other_clients_leads_to_live(
    terraform: TerraformModule,
) -> None:
    nobody, synthesis = (
        cast("Any", None),
        Synthesis(Admission(running=1, waiting=0), SpeechLimits()),
    )
    services = VoicevoxServices(VoicevoxSpeakers([]), UserData.open(), synthesis)
    routes = [
        *openai.build(nobody, synthesis).routes,
        *elevenlabs.build({}, nobody, nobody, synthesis).routes,
        *text_socket.build(text_socket.SpeechSockets(nobody, synthesis)).routes,
    ]

    assert set(terraform.locals["voicevox_paths"]) == paths_of(build(services).routes)
    assert set(terraform.locals["compat_paths"]) == paths_of(routes)


def paths_of(routes: Iterable[object]) -> set[str]:
    return {re.sub(r"\{\w+\}.*$", "*", cast("Route", route).path) for route in routes}


def test_no_path_of_voicevox_is_the_apis_the_pages_or_that_of_live(
    terraform: TerraformModule, api: FastAPI
) -> None:
    page = {f"/{path.name}" for path in (ROOT / "web/page/public").iterdir()}
    taken = page | {"/", "/index.html", "/config.json", "/assets", terraform.locals["live_path"]}
    taken |= {route.path for route in api.routes if isinstance(route, APIRoute | Route)}
    first_parts = {path.split("/")[1] for path in taken}

    ours = terraform.locals["voicevox_paths"] + terraform.locals["compat_paths"]
    assert not {path.split("/")[1] for path in ours} & first_parts


async def test_the_uptime_check_asks_a_route_that_answers_and_that_cloud_run_lets_through(
    terraform: TerraformModule, api: FastAPI
) -> None:
    check = terraform.resources["google_monitoring_uptime_check_config", "api"]["http_check"][0]

    assert await ask(api, "GET", check["path"]) == 200
    assert not check["path"].endswith("z")
