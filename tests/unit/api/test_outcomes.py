"""Clients whose recordings fail may send fewer."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from functions.api.limits import (
    IN_PROGRESS_SECONDS,
    LOOKS,
    MOST_PAUSE_SECONDS,
    PATIENCE_SECONDS,
    RequestLimits,
    VoiceOutcomes,
)
from functions.api.problems import Problem
from functions.api.visitors import ClientNames
from shared.voices.voice import ErrorCode, Status, VoiceError
from tests.support.clock import Clock
from tests.support.reachable import objects_kept_by
from tests.support.stores import CountedVoices
from tests.support.voices import NOW, a_converting, a_done, a_failed, a_queued, a_waiting
from tests.unit.api.stage import ApiStage, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from shared.voices.voice import Voice

PER_MINUTE = 240
BURST = 20
CLIENT, OTHER = "203.0.113.9", "203.0.113.10"
HOSTILE = VoiceError(ErrorCode.TOO_COMPLEX, "It takes too much.")
ATTACKER, NEIGHBOUR = "2001:db8:1:1::/64", "2001:db8:1:2::/64"


class Scene:
    """Outcomes and everything around them."""

    def __init__(self, in_progress: int = 50) -> None:
        self.clock = Clock()
        self.voices = CountedVoices()
        self.limits = RequestLimits(
            per_minute=PER_MINUTE, waiting=0, trusted_proxies=1, now=self.clock, sleep=at_once
        )
        self.outcomes = VoiceOutcomes(
            self.voices, self.limits, in_progress=in_progress, seconds=1200.0, now=self.clock
        )

    async def made(self, voice: Voice, client: str = CLIENT) -> Voice:
        """Let a client have created a voice here."""
        await self.voices.create(voice)
        self.outcomes.remember(client, voice.voice_id)
        return voice

    def requests_left(self, client: str = CLIENT) -> int:
        """Count the requests that a client could send now."""
        limits = copy.deepcopy(self.limits)
        for count in range(10 * PER_MINUTE):
            if not is_admitted(limits, client):
                return count
        raise AssertionError("there is no limit")

    def pause(self, client: str = CLIENT) -> float:
        """Return the seconds, in quarters, after which a client's next request is admitted."""
        limits, clock = copy.deepcopy((self.limits, self.clock))
        begin = clock.seconds
        while not is_admitted(limits, client):
            clock.seconds += 0.25
        return clock.seconds - begin


def request_of(client: str) -> Request:
    address = client.replace("::/64", "::1").encode()
    return Request({"type": "http", "headers": [(b"x-forwarded-for", address)], "client": None})


def is_admitted(limits: RequestLimits, client: str) -> bool:
    try:
        limits.admit(request_of(client))
    except Problem:
        return False
    return True


async def at_once(_: float) -> None:
    """Let a request's turn come at once."""


@pytest.fixture
def scene() -> Scene:
    return Scene()


def failed_with(code: ErrorCode) -> Voice:
    return a_failed(VoiceError(code, "It failed."))


@pytest.mark.parametrize(
    ("code", "cost"),
    [
        (ErrorCode.TOO_COMPLEX, 10),
        (ErrorCode.CORRUPT, 10),
        (ErrorCode.ATTEMPTS_EXHAUSTED, 10),
        (ErrorCode.SILENT, 0),
        (ErrorCode.UPLOAD_EXPIRED, 0),
    ],
)
async def test_a_recording_that_fails_as_an_attackers_counts_once_for_many_and_a_mistake_for_none(
    scene: Scene, code: ErrorCode, cost: int
) -> None:
    voice = await scene.made(failed_with(code))

    for _ in range(3):
        await scene.outcomes.update_outcomes(CLIENT)
        scene.outcomes.count_ended(voice)

    assert scene.requests_left() == BURST - cost
    assert scene.requests_left(OTHER) == BURST


@pytest.mark.parametrize(("sent", "left"), [(3, BURST - 2), (0, BURST)])
async def test_a_mistake_of_ours_gives_the_request_of_its_voice_back_once(
    scene: Scene, sent: int, left: int
) -> None:
    for _ in range(sent):
        scene.limits.admit(request_of(CLIENT))
    voice = await scene.made(failed_with(ErrorCode.INTERNAL))

    for _ in range(3):
        await scene.outcomes.update_outcomes(CLIENT)
        scene.outcomes.count_ended(voice)

    assert scene.requests_left() == left


async def test_requests_that_wait_for_their_turn_do_not_hide_failures(scene: Scene) -> None:
    with suppress(Problem):
        while True:
            await scene.limits.admit_in_turn(request_of(CLIENT))
    before = scene.pause()
    assert before > PATIENCE_SECONDS

    await scene.made(a_failed(HOSTILE))
    await scene.outcomes.update_outcomes(CLIENT)

    # Ten requests of 240 in a minute.
    assert scene.pause() == before + 2.5


async def test_others_behind_the_same_address_still_get_in(scene: Scene) -> None:
    for _ in range(200):
        await scene.made(a_failed(HOSTILE))
        await scene.outcomes.update_outcomes(CLIENT)
    assert scene.requests_left() == 0

    scene.clock.seconds += PATIENCE_SECONDS + MOST_PAUSE_SECONDS

    assert scene.requests_left() == 1


async def test_a_network_shares_what_its_clients_cost_and_another_one_does_not(
    scene: Scene,
) -> None:
    await scene.made(a_failed(HOSTILE), ATTACKER)

    # A neighbour creates a voice: that settles what the others of the /48 have created.
    await scene.outcomes.update_outcomes(NEIGHBOUR)

    assert scene.requests_left(ATTACKER) == BURST - 10
    assert scene.requests_left(NEIGHBOUR) == BURST - 10
    assert scene.requests_left("2001:db8:2:1::/64") == BURST


async def test_a_48_is_slowed_down_for_a_quarter_of_the_time_of_one_address(
    scene: Scene,
) -> None:
    for number in range(20):
        await scene.made(a_failed(HOSTILE), f"2001:db8:1:{number:x}00::/64")
    for _ in range(20 // LOOKS):
        await scene.outcomes.update_outcomes(NEIGHBOUR)

    # More than the requests that a /48 may send at once: each counts as 10.
    assert scene.requests_left("2001:db8:1:ff00::/64") == 0
    scene.clock.seconds += PATIENCE_SECONDS + MOST_PAUSE_SECONDS / 4
    assert scene.requests_left("2001:db8:1:ff00::/64") == 1


@pytest.mark.parametrize("step", [0, 1, 0x100])
async def test_only_so_many_voices_of_a_client_and_its_networks_may_have_no_end(step: int) -> None:
    scene = Scene(in_progress=2)
    for number in range(2):
        await scene.made(a_waiting(), f"2001:db8:1:{number * step:x}::/64")

    with pytest.raises(Problem, match="2 voices from your address") as refusal:
        await scene.outcomes.update_outcomes(f"2001:db8:1:{2 * step:x}::/64")
    await scene.outcomes.update_outcomes(OTHER)
    assert (refusal.value.status, refusal.value.code) == (429, "rate_limited")


async def test_a_voice_that_was_given_up_counts_for_a_minute_and_is_still_looked_at() -> None:
    scene = Scene(in_progress=5)
    for _ in range(4):
        await scene.made(a_waiting())
    failed = await scene.made(a_waiting())
    scene.clock.seconds += IN_PROGRESS_SECONDS

    await scene.outcomes.update_outcomes(CLIENT)
    snapshot = await scene.voices.read(failed.voice_id)
    late = replace(a_failed(HOSTILE), voice_id=failed.voice_id)
    await scene.voices.replace(snapshot, late)
    await scene.outcomes.update_outcomes(CLIENT)

    assert scene.requests_left() == BURST - 10


async def test_voices_that_end_make_room(scene: Scene) -> None:
    scene = Scene(in_progress=5)
    made = [await scene.made(a_waiting()) for _ in range(5)]
    await scene.voices.delete(made[0].voice_id)
    snapshot = await scene.voices.read(made[1].voice_id)
    await scene.voices.replace(snapshot, replace(a_done(), voice_id=made[1].voice_id))

    await scene.outcomes.update_outcomes(CLIENT)

    assert len(scene.outcomes) == 3


async def test_a_few_voices_are_looked_at_for_each_new_one_and_in_turn(scene: Scene) -> None:
    for _ in range(20):
        await scene.made(a_waiting())
    await scene.made(a_failed(HOSTILE))

    for _ in range(20 // LOOKS):
        await scene.outcomes.update_outcomes(CLIENT)
    assert scene.voices.reads == 20
    await scene.outcomes.update_outcomes(CLIENT)

    assert scene.requests_left() == BURST - 10
    assert len(scene.outcomes) == 20  # the last one is over


async def test_a_voice_whose_recording_can_no_longer_come_is_forgotten(scene: Scene) -> None:
    kept = objects_kept_by(scene.outcomes)
    for number in range(20):
        scene.outcomes.remember(f"192.0.{number}.1", a_waiting().voice_id)
    scene.clock.seconds += 1200.0

    await scene.outcomes.update_outcomes(OTHER)

    assert len(scene.outcomes) == 0
    assert objects_kept_by(scene.outcomes) <= kept + 5


async def test_a_store_that_does_not_answer_refuses_nobody(scene: Scene) -> None:
    await scene.made(a_failed(HOSTILE))
    scene.voices.is_down = True

    await scene.outcomes.update_outcomes(CLIENT)

    assert len(scene.outcomes) == 1
    assert scene.requests_left() == BURST


@pytest.mark.parametrize(("make", "cost"), [(a_queued, 10), (a_converting, 10), (a_waiting, 0)])
async def test_erasing_a_voice_costs_only_while_it_is_converted(
    scene: Scene, make: Callable[[], Voice], cost: int
) -> None:
    voice = await scene.made(make())

    scene.outcomes.count_erased(voice)
    await scene.voices.delete(voice.voice_id)
    await scene.outcomes.update_outcomes(CLIENT)
    # Voices that were created elsewhere count for nobody.
    scene.outcomes.count_ended(a_failed(HOSTILE))
    scene.outcomes.count_erased(a_converting())

    assert scene.requests_left() == BURST - cost
    assert len(scene.outcomes) == 0


class TestInTheApi:
    async def test_a_client_is_told_to_wait_after_failed_recordings(self, stage: ApiStage) -> None:
        stage.limits = RequestLimits(per_minute=144, patience=0, waiting=0, trusted_proxies=0)
        stage.in_progress = 48
        failed = await create(stage.http)
        created = await stage.voice(failed)
        await fail(stage, failed)
        await create(stage.http)
        refused = await stage.http.post("/api/v1/voices")

        assert "Too many requests" in problem(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) <= MOST_PAUSE_SECONDS
        # A voice knows its client by a name.
        assert created.client is not None
        assert "127.0.0.1" not in created.client

    async def test_a_client_with_too_many_voices_is_told_to_wait(self, stage: ApiStage) -> None:
        stage.in_progress = 2
        await create(stage.http)
        await create(stage.http)
        refused = await stage.http.post("/api/v1/voices")

        assert "2 voices" in problem(refused, 429, "rate_limited")
        assert stage.voices.count == 2  # nothing else was created


async def create(client: httpx.AsyncClient) -> str:
    created = await client.post("/api/v1/voices")
    assert created.status_code == 201
    voice_id: str = created.json()["voice_id"]
    return voice_id


async def fail(stage: ApiStage, voice_id: str) -> None:
    snapshot = await stage.voices.read(voice_id)
    failed = replace(a_failed(HOSTILE), voice_id=voice_id)
    assert failed.status is Status.FAILED
    await stage.voices.replace(snapshot, failed)


class TestClientNames:
    def test_a_48_has_one_name_which_says_nothing_without_the_key_and_changes_every_day(
        self,
    ) -> None:
        tomorrow = NOW.replace(day=NOW.day + 1)
        names = ClientNames("key", lambda: NOW)

        assert names.name_of(ATTACKER) == names.name_of(NEIGHBOUR)
        others = [
            names.name_of("2001:db8:2:1::/64"),
            ClientNames("another", lambda: NOW).name_of(ATTACKER),
            ClientNames("key", lambda: tomorrow).name_of(ATTACKER),
        ]
        assert names.name_of(ATTACKER) not in others
