from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from functions.compat.composition import keys_of
from functions.compat.openai import build, refuse_openai
from functions.compat.service import keys
from functions.compat.service.keys import (
    Access,
    AccessMiddleware,
    KeyLimits,
    KeyUsage,
    LimitReachedError,
    Meter,
)
from functions.compat.service.shared_files import LockedJsonFile
from functions.compat.service.synthesis import ClientLeftError
from shared.runtime.settings import SettingsError
from tests.support.compat import client_of, synthesis_of, text_speakers
from tests.support.speakers import Sentences

if TYPE_CHECKING:
    from pathlib import Path

SHOP, BOT = "0123456789abcdef" * 2, "fedcba9876543210" * 2


async def count(meter: Meter, owner: str, characters: int = 0, seconds: float = 0.0) -> None:
    async with meter.count(owner, "openai", characters=characters, seconds=seconds):
        pass


async def test_what_each_key_has_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    meter = Meter()

    with caplog.at_level(logging.INFO):
        await count(meter, "shop", 10)
        await count(meter, "shop", 5, 2.5)
        await count(meter, "", 1)

    assert meter.usage() == {
        "shop": KeyUsage(requests=2, characters=15, seconds=2.5),
        "nobody": KeyUsage(requests=1, characters=1),
    }
    found = [vars(record) for record in caplog.records if vars(record).get("event") == "metered"]
    assert [(each["key"], each["characters"]) for each in found] == [
        ("shop", 10),
        ("shop", 5),
        ("nobody", 1),
    ]


async def test_a_key_gets_no_more_than_its_limits_and_others_are_not_disturbed() -> None:
    meter = Meter(KeyLimits(characters=10, seconds=60.0))

    await count(meter, "shop", 10)
    with pytest.raises(LimitReachedError, match="10 characters a day"):
        await count(meter, "shop", 1)
    await count(meter, "bot", 10, 60.0)
    with pytest.raises(LimitReachedError, match="60 seconds a day"):
        await count(meter, "bot", 0, 0.1)

    assert meter.usage()["shop"].characters == 10


async def test_what_failed_does_not_count() -> None:
    meter = Meter(KeyLimits(characters=10))

    for _ in range(2):
        with pytest.raises(ValueError, match="busy"):
            async with meter.count("shop", "openai", characters=10):
                raise ValueError("busy")

    assert not meter.usage()


async def test_what_a_client_has_left_counts(caplog: pytest.LogCaptureFixture) -> None:
    meter = Meter(KeyLimits(characters=10))

    with caplog.at_level(logging.INFO), pytest.raises(ClientLeftError):
        async with meter.count("shop", "x", characters=10, left=(ClientLeftError,)):
            raise ClientLeftError

    assert meter.usage() == {"shop": KeyUsage(requests=1, characters=10)}
    assert [vars(record).get("event") for record in caplog.records] == ["metered"]


async def test_what_failed_after_midnight_is_not_given_back_to_the_new_day() -> None:
    days = iter(["2026-11-23"] + ["2026-11-24"] * 9)
    meter = Meter(today=lambda: next(days))

    async def fail() -> None:
        async with meter.count("shop", "openai", characters=10):
            await count(meter, "shop", 4)
            raise ValueError("busy")

    with pytest.raises(ValueError, match="busy"):
        await fail()

    assert meter.usage() == {"shop": KeyUsage(requests=1, characters=4)}


@pytest.mark.parametrize("processes", [1, 2])
async def test_requests_at_once_get_no_more_than_the_limit(tmp_path: Path, processes: int) -> None:
    limits, file = KeyLimits(characters=300), tmp_path / "usage.json"
    meters = [Meter(limits, LockedJsonFile(file)) for _ in range(processes)]
    all_have_asked = asyncio.Barrier(30)

    async def is_let_in(meter: Meter) -> bool:
        try:
            async with meter.count("shop", "openai", characters=250):
                await all_have_asked.wait()
        except LimitReachedError:
            await all_have_asked.wait()
            return False
        return True

    async with asyncio.timeout(60):
        let_in = await asyncio.gather(*(is_let_in(meters[n % processes]) for n in range(30)))

    assert sum(let_in) == 1
    assert meters[0].usage() == {"shop": KeyUsage(requests=1, characters=250)}


async def test_a_new_day_begins_at_nothing() -> None:
    days = iter(["2026-11-23"] + ["2026-11-24"] * 9)
    meter = Meter(KeyLimits(characters=10), today=lambda: next(days))

    await count(meter, "shop", 10)
    await count(meter, "shop", 10)

    assert meter.usage()["shop"].characters == 10


async def test_processes_of_one_machine_count_together(tmp_path: Path) -> None:
    limits = KeyLimits(characters=10)
    one, other = (Meter(limits, LockedJsonFile(tmp_path / "usage.json")) for _ in range(2))

    await count(one, "shop", 6)
    await count(other, "shop", 4)

    with pytest.raises(LimitReachedError):
        await count(one, "shop", 1)
    assert one.usage() == other.usage() == {"shop": KeyUsage(requests=2, characters=10)}


async def test_a_request_is_counted_for_the_key_that_it_carries() -> None:
    meter = Meter(KeyLimits(characters=6))
    app = build(text_speakers(Sentences()), synthesis_of(), meter)
    access = Access(keys_of(None, [SecretStr(f"shop={SHOP}"), SecretStr(f"bot={BOT}")]))
    body = {"model": "x", "voice": "mei", "input": "はい。はい。"}
    async with client_of(AccessMiddleware(app, access, refuse_openai)) as client:
        answers = [
            await client.post(
                "/v1/audio/speech", json=body, headers={"Authorization": f"Bearer {key}"}
            )
            for key in (SHOP, SHOP, BOT)
        ]

    assert [answer.status_code for answer in answers] == [200, 429, 200]
    assert {name: used.characters for name, used in meter.usage().items()} == {"shop": 6, "bot": 6}


async def test_an_operator_reads_the_counts_as_metrics() -> None:
    meter = Meter()
    await count(meter, "shop", 15, 2.5)

    access = Access(keys_of(SecretStr(BOT), [SecretStr(f"shop={SHOP}")]))
    app = AccessMiddleware(keys.build(meter), access, keys.refuse)
    async with client_of(app) as client:
        answer = await client.get("/metrics", headers={"X-API-Key": BOT})
        others = await client.get("/metrics", headers={"X-API-Key": SHOP})

    assert others.status_code == 403
    assert 'voice_avatar_characters_today{key="shop"} 15' in answer.text.splitlines()
    assert 'voice_avatar_seconds_today{key="shop"} 2.5' in answer.text.splitlines()


@pytest.mark.parametrize("entry", ["0123456789abcdef", f"={SHOP}", "shop=short", f"a b={SHOP}"])
def test_a_key_without_a_name_or_too_short_is_refused(entry: str) -> None:
    with pytest.raises(SettingsError, match="expected NAME=KEY"):
        keys_of(None, [SecretStr(entry)])


def test_a_name_has_one_key() -> None:
    assert keys_of(SecretStr(BOT), [SecretStr(f"shop={SHOP}")]) == {"operator": BOT, "shop": SHOP}
    with pytest.raises(SettingsError):
        keys_of(SecretStr(BOT), [SecretStr(f"operator={SHOP}")])
