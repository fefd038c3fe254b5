from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING

import httpx
import pytest
from google.oauth2 import id_token

from functions.api.warmup import SENDING_SECONDS, GoogleIdentity, WarmUp, no_identity
from tests.support.http_server import Answer, Asked, serving
from tests.support.logs import log_book
from tests.support.virtual_time import in_virtual_time, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.api.warmup import Identity


class SlowIdentity:
    def __init__(self) -> None:
        self.goes_on = asyncio.Event()

    async def __call__(self) -> Mapping[str, str]:
        await self.goes_on.wait()
        return {"Authorization": "Bearer token"}


def answered_by(
    answer: Callable[[httpx.Request], httpx.Response], identity: Identity | None = None
) -> WarmUp:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return WarmUp(client, "http://x.test/", identity or no_identity)


async def test_the_warm_up_is_sent_and_not_awaited_and_no_second_one_for_a_few_visitors() -> None:
    asked, goes_on = queue.Queue[str](), threading.Event()

    def answer(request: Asked) -> Answer:
        asked.put(request.path)
        goes_on.wait(20)
        return Answer(b"")

    with serving(answer) as address:
        warm_up = WarmUp(httpx.AsyncClient(), f"{address}/warmup", no_identity)
        await warm_up.send()
        assert await asyncio.to_thread(asked.get, timeout=20) == "/warmup"
        await warm_up.send()

        goes_on.set()
        async with asyncio.timeout(20):
            while warm_up._under_way:  # noqa: SLF001, ASYNC110 - it ends unseen
                await asyncio.sleep(0.01)
        await warm_up.aclose()
    assert asked.empty()


@in_virtual_time
@pytest.mark.parametrize(
    ("visitors", "pause", "most", "wanted"),
    [
        # 50 visitors a second, each of whom takes two places for half a second.
        (100, 0.02, 80, 50),
        (400, 0.0, 8, 8),
        (30, 1.0, 40, 1),
    ],
)
async def test_visitors_wake_as_many_slots_as_they_will_take_and_no_more_than_are_allowed(
    *, visitors: int, pause: float, most: int, wanted: int
) -> None:
    container = HeldBack()
    warm_up = container.warm_up(most=most)

    for _ in range(visitors):
        await warm_up.send()
        await asyncio.sleep(pause)

    assert len(container.held) == wanted
    await warm_up.aclose()


@in_virtual_time
async def test_a_crowd_before_warm_converters_leaves_no_warm_up_waiting() -> None:
    container = HeldBack()
    container.go_on.set()
    warm_up = container.warm_up()

    for _ in range(100):
        await warm_up.send()
        await settle()

    assert container.most_at_once == 1
    await warm_up.aclose()


class HeldBack:
    """A conversion service none of whose instances is ready yet."""

    def __init__(self) -> None:
        self.held: list[httpx.Request] = []
        self.go_on = asyncio.Event()
        self.most_at_once = 0

    def warm_up(self, most: int = 40) -> WarmUp:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        now = asyncio.get_running_loop().time
        return WarmUp(client, "http://x.test/warmup", no_identity, most=most, now=now)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        await request.extensions["trace"]("http11.send_request_body.complete", {})
        self.held.append(request)
        self.most_at_once = max(self.most_at_once, len(self.held))
        await self.go_on.wait()
        self.held.remove(request)
        return httpx.Response(200)


@in_virtual_time
async def test_each_character_that_must_be_loaded_has_a_warm_up_of_its_own() -> None:
    container = HeldBack()
    warm_up = container.warm_up()

    await asyncio.gather(*(warm_up.send(name) for name in ("ada", "bob", "ada", None)))

    asked = {request.url.params.get("character") for request in container.held}
    assert (asked, len(container.held)) == ({"ada", "bob", None}, 3)
    await warm_up.aclose()


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize("answer", [lambda _: httpx.Response(503), refuse])
async def test_a_failed_warm_up_is_logged_and_changes_nothing_else(
    answer: Callable[[httpx.Request], httpx.Response],
) -> None:
    warm_up = answered_by(answer)
    with log_book() as book:
        await warm_up.send()
        await settle()

    assert len(book.of("warmup_failed")) == 1
    await warm_up.aclose()


@in_virtual_time
async def test_a_warm_up_that_is_slow_to_send_delays_the_visitor_only_a_little() -> None:
    identity, seen = SlowIdentity(), []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200)

    warm_up = answered_by(answer, identity)
    with log_book() as book:
        await warm_up.send()
    assert asyncio.get_running_loop().time() == SENDING_SECONDS
    assert (len(book.of("warmup_slow")), seen) == (1, [])

    identity.goes_on.set()
    await settle()
    assert seen == ["Bearer token"]
    await warm_up.aclose()


@in_virtual_time
async def test_the_work_goes_on_while_the_warm_up_is_sent_and_passes_its_error_on() -> None:
    identity = SlowIdentity()
    warm_up = answered_by(lambda _: httpx.Response(200), identity)
    loop = asyncio.get_running_loop()

    async def work() -> None:
        async with warm_up.sending():
            await asyncio.sleep(SENDING_SECONDS / 2)
            assert loop.time() == SENDING_SECONDS / 2
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await work()
    assert loop.time() == SENDING_SECONDS
    await warm_up.aclose()


async def test_in_production_many_warm_ups_share_one_identity_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FakeCredentials:
        token, valid = "", False
        refreshed = 0

        def refresh(self, _request: object) -> None:
            self.refreshed += 1
            self.token, self.valid = "token", True

    audiences: list[str] = []
    credentials = FakeCredentials()

    def fetch(audience: str, **_options: object) -> FakeCredentials:
        audiences.append(audience)
        return credentials

    monkeypatch.setattr(id_token, "fetch_id_token_credentials", fetch)
    identity = GoogleIdentity("https://convert.example")

    sent = await asyncio.gather(*(identity() for _ in range(5)))
    assert sent == [{"Authorization": "Bearer token"}] * 5
    credentials.valid = False
    await identity()

    assert (audiences, credentials.refreshed) == (["https://convert.example"], 2)
