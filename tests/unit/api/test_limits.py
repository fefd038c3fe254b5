"""Limits of a client's requests, and the definition of a client."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

import pytest
from starlette.requests import Request

from functions.api import limits as limits_module
from functions.api.limits import WINDOW_SECONDS, RequestLimits, TokenBuckets
from functions.api.problems import Problem
from shared.runtime.limits import network_of
from shared.voices.voice import new_voice_id
from tests.support.clock import Clock
from tests.support.reachable import objects_kept_by
from tests.support.voices import a_queued
from tests.unit.api.stage import FORM, SITE, ApiStage, problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    import httpx

PER_MINUTE = 6
PAUSE = WINDOW_SECONDS / PER_MINUTE

BURST = 6
"""The requests that the api admits at once; in a minute it admits twelve times as many."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits(clock: Clock, *, waiting: int = 0, trusted_proxies: int = 0) -> RequestLimits:
    return RequestLimits(
        patience=0,
        per_minute=12 * BURST,
        waiting=waiting,
        trusted_proxies=trusted_proxies,
        now=clock,
    )


class TestTokenBuckets:
    def test_a_bucket_can_be_emptied_at_once_and_no_further_whoever_asks_often_or_besides(
        self, clock: Clock
    ) -> None:
        buckets = TokenBuckets(PER_MINUTE, clock)

        assert [buckets.take("a") for _ in range(PER_MINUTE)] == [0.0] * PER_MINUTE
        assert [buckets.take("a") for _ in range(9)] == pytest.approx([PAUSE] * 9)
        assert buckets.take("other") == 0

    def test_the_pause_it_names_is_long_enough_and_not_longer(self, clock: Clock) -> None:
        buckets = TokenBuckets(PER_MINUTE, clock)
        for _ in range(PER_MINUTE):
            buckets.take("a")

        clock.seconds += PAUSE * 0.75
        pause = buckets.take("a")
        clock.seconds += pause - 0.01
        assert buckets.take("a") > 0
        clock.seconds += 0.01
        assert buckets.take("a") == 0
        assert buckets.take("a") == pytest.approx(PAUSE)

    def test_many_addresses_fill_no_memory_and_hide_nobody_who_still_asks(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits_module, "MOST_CLIENTS", 100)
        buckets = TokenBuckets(PER_MINUTE, clock)
        for number in range(PER_MINUTE):
            assert buckets.take("greedy") == 0
            for other in range(50):
                buckets.take(f"{number}/{other}")
                assert len(buckets) <= 100
        assert buckets.take("greedy") > 0

        clock.seconds += WINDOW_SECONDS
        buckets.take("another")
        assert len(buckets) == 1  # full buckets are forgotten


def a_request(
    *forwarded: str, own: str | None = "169.254.1.1", host: str = "voice.example.com"
) -> Request:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    headers.append((b"host", host.encode()))
    client = (own, 1234) if own is not None else None
    return Request({"type": "http", "headers": headers, "client": client})


class TestWhoCountsAsOneClient:
    @pytest.mark.parametrize(
        ("proxies", "forwarded"),
        [
            # Behind Cloud Run it is the last entry; those of a visitor's own proxies are not.
            (1, ["203.0.113.9"]),
            (1, ["10.0.0.1,10.0.0.2 ,  203.0.113.9"]),
            (1, ["::ffff:203.0.113.9"]),
            (1, [", ,x\x00, 203.0.113.9"]),
            # Behind a load balancer it is the last but one, as Google documents it.
            (2, ["203.0.113.9,192.0.2.80"]),
            (2, ["not an address; 1 2 3,,203.0.113.9,192.0.2.80"]),
            # Invented entries do not hide the real ones, which come after them.
            (2, ["198.51.100.1,192.0.2.80,203.0.113.9,192.0.2.80"]),
        ],
    )
    def test_our_proxies_entry_for_the_visitor_counts(
        self, proxies: int, forwarded: list[str]
    ) -> None:
        assert network_of(a_request(*forwarded), proxies) == "203.0.113.9"

    def test_at_an_address_of_the_platform_an_invented_entry_stands_for_no_load_balancer(
        self,
    ) -> None:
        for host in ("api-1.us-central1.run.app", "API.run.app.:443", "r-p.cloudfunctions.net"):
            assert network_of(a_request("10.0.0.1, 203.0.113.9", host=host), 2) == "203.0.113.9"

    @pytest.mark.parametrize(
        ("proxies", "forwarded"),
        [(1, []), (1, [""]), (1, ["10.0.0.1, x"]), (0, ["203.0.113.9"]), (2, ["203.0.113.9"])],
    )
    def test_where_no_proxy_or_fewer_have_written_the_connection_counts(
        self, proxies: int, forwarded: list[str]
    ) -> None:
        assert network_of(a_request(*forwarded), proxies) == "169.254.1.1"
        assert network_of(a_request(*forwarded, own=None), proxies) == ""

    def test_all_addresses_of_an_ipv6_network_are_one_client(self) -> None:
        addresses = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1")
        one, same, other = (network_of(a_request(address), 1) for address in addresses)

        assert one == same != other


def of_network(number: int) -> Request:
    """A request from the /64 of this number in a /48."""
    return a_request(f"2001:db8:1:{number:x}::1")


def admitted(limits: RequestLimits, numbers: Iterable[int]) -> int:
    """Count the admitted requests from these /64."""
    count = 0
    for number in numbers:
        with suppress(Problem):
            limits.admit(of_network(number))
            count += 1
    return count


class TestNetworks:
    @pytest.mark.parametrize("every", [range(256), range(0, 65_536, 512)], ids=["/56", "/48"])
    def test_a_client_cannot_multiply_itself_by_its_networks(
        self, clock: Clock, every: range
    ) -> None:
        assert admitted(limits(clock, trusted_proxies=1), every) == BURST

    @pytest.mark.parametrize(("step", "times"), [(1, 2), (256, 4)])
    def test_a_network_may_send_more_in_a_minute_but_not_as_much_as_all_its_clients(
        self, clock: Clock, step: int, times: int
    ) -> None:
        some, every = limits(clock, trusted_proxies=1), itertools.cycle(range(0, 100 * step, step))
        admitted(some, itertools.islice(every, 100))
        count = 0
        for _ in range(60):
            clock.seconds += 1.0
            count += admitted(some, itertools.islice(every, 10))

        assert count == times * 12 * BURST

    def test_a_refused_request_takes_nothing_from_the_larger_networks(self, clock: Clock) -> None:
        some = limits(clock, trusted_proxies=1)
        assert admitted(some, [1] * 100) == BURST
        # A token for the /64, two for the /56, four for the /48.
        clock.seconds += WINDOW_SECONDS / (12 * BURST)

        assert admitted(some, [1] * 100) == 1
        clock.seconds += 0.01
        assert admitted(some, [2] * 100) == 1

    @pytest.mark.parametrize(("step", "most"), [(1, 2), (256, 4)])
    def test_the_requests_that_wait_are_counted_for_the_larger_networks(
        self, clock: Clock, step: int, most: int
    ) -> None:
        some = limits(clock, waiting=1, trusted_proxies=1)
        with ExitStack() as stack:
            for number in range(most):
                stack.enter_context(some.waiting(of_network(number * step)))
            with pytest.raises(Problem), some.waiting(of_network(most * step)):
                pass

        with some.waiting(of_network(0)):
            pass

    def test_nothing_is_kept_of_requests_that_have_waited(self, clock: Clock) -> None:
        some = limits(clock, waiting=1, trusted_proxies=1)
        kept = objects_kept_by(some)
        for number in range(100):
            with some.waiting(of_network(number)):
                assert objects_kept_by(some) <= kept + 20
        assert objects_kept_by(some) <= kept + 5


class TestTurns:
    async def test_a_class_behind_one_address_creates_its_voices_one_after_another(self) -> None:
        clock, waits = Clock(), list[float]()

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        some = RequestLimits(per_minute=120, waiting=0, trusted_proxies=0, now=clock, sleep=sleep)
        let_in = 0
        with suppress(Problem):
            for _ in range(100):
                await some.admit_in_turn(a_request())
                let_in += 1

        # 10 at once, then one in half a second, for as long as they may wait.
        assert let_in == 20
        assert waits == pytest.approx([0.5 * each for each in range(1, 11)])
        clock.seconds += 0.5
        await some.admit_in_turn(a_request())
        assert waits[-1] == pytest.approx(5.0)


async def post(client: httpx.AsyncClient, **headers: str) -> httpx.Response:
    return await client.post("/api/v1/voices", headers=headers)


class Unread:
    """A body that nobody may read."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        pytest.fail("the form was read")


class TestRequestsPerMinute:
    async def test_who_asks_too_often_costs_nothing_and_is_told_when_to_come_back(
        self, stage: ApiStage, clock: Clock
    ) -> None:
        stage.limits = limits(clock)
        for _ in range(BURST):
            assert (await post(stage.http)).status_code == 201
        refused = await post(stage.http, Origin=SITE)

        assert refused.headers["retry-after"] == "1"
        assert "wait 1 s" in problem(refused, 429, "rate_limited")
        assert refused.headers["access-control-allow-origin"] == SITE
        assert stage.voices.count == BURST  # nothing else was created
        assert stage.container.warm_ups <= BURST
        # The characters, the probe and preflights are free.
        assert (await stage.http.get("/api/v1/characters")).status_code == 200
        assert (await stage.http.get("/healthz")).status_code == 204
        preflight = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
        assert (await stage.http.options("/api/v1/voices", headers=preflight)).status_code == 200

        clock.seconds += float(refused.headers["retry-after"])
        assert (await post(stage.http)).status_code == 201

    async def test_everything_about_voices_counts_and_is_refused_unread(
        self, stage: ApiStage, clock: Clock
    ) -> None:
        stage.limits = limits(clock)
        for _ in range(BURST):
            await stage.http.delete(f"/api/v1/voices/{new_voice_id()}")

        for method, path, options in (
            ("POST", "voices", {}),
            ("PUT", "voices", {"content": Unread(), "headers": FORM}),
            ("DELETE", f"voices/{new_voice_id()}", {}),
            ("GET", f"conversion/{new_voice_id()}", {}),
            ("POST", "verifications", {"content": Unread()}),
        ):
            refused = await stage.http.request(method, f"/api/v1/{path}", **options)
            problem(refused, 429, "rate_limited")


class TestWaitingAtTheSameTime:
    async def test_one_client_holds_only_so_many_connections(
        self, stage: ApiStage, clock: Clock
    ) -> None:
        stage.limits = RequestLimits(per_minute=0, waiting=2, trusted_proxies=1, now=clock)
        voice = a_queued()
        await stage.voices.create(voice)
        mine, others = {"X-Forwarded-For": "203.0.113.9"}, {"X-Forwarded-For": "203.0.113.10"}
        path = f"/api/v1/conversion/{voice.voice_id}"
        waiting = [asyncio.create_task(stage.http.get(path, headers=mine)) for _ in range(2)]
        await stage.voices.until_watched(times=2)

        refused = await stage.http.get(path, headers=mine)
        waiting.append(asyncio.create_task(stage.http.get(path, headers=others)))
        await stage.voices.until_watched(times=3)
        await stage.voices.delete(voice.voice_id)
        answers = await asyncio.gather(*waiting)
        after = await stage.http.get(path, headers=mine)

        assert "2 requests" in problem(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        assert {answer.status_code for answer in [*answers, after]} == {404}
