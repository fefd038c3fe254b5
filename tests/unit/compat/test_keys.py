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

SHOP, BOT, OPERATOR = "0123456789abcdef" * 2, "fedcba9876543210" * 2, "0" * 32


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


async def test_what_failed_does_not_count_but_what_a_client_has_left_does() -> None:
    meter = Meter(KeyLimits(characters=10))

    for _ in range(2):
        with pytest.raises(ValueError, match="busy"):
            async with meter.count("shop", "openai", characters=10):
                raise ValueError("busy")
    assert not meter.usage()
    with pytest.raises(ClientLeftError):
        async with meter.count("shop", "x", characters=10):
            raise ClientLeftError
    assert meter.usage() == {"shop": KeyUsage(requests=1, characters=10)}


async def test_a_new_day_begins_at_nothing_and_gets_nothing_back_of_the_last_one() -> None:
    days = iter(["2026-11-23"] * 2 + ["2026-11-24"] * 9)
    meter = Meter(KeyLimits(characters=14), today=lambda: next(days))

    async def fail() -> None:
        async with meter.count("shop", "openai", characters=10):
            await count(meter, "shop", 4)
            raise ValueError("busy")

    await count(meter, "shop", 4)
    with pytest.raises(ValueError, match="busy"):
        await fail()

    assert meter.usage() == {"shop": KeyUsage(requests=1, characters=4)}


async def test_processes_of_one_machine_count_together_also_at_once(tmp_path: Path) -> None:
    limits, file = KeyLimits(characters=300), tmp_path / "usage.json"
    meters = [Meter(limits, LockedJsonFile(file)) for _ in range(2)]
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
        let_in = await asyncio.gather(*(is_let_in(meters[n % 2]) for n in range(30)))

    assert sum(let_in) == 1
    assert meters[0].usage() == meters[1].usage()
    assert meters[0].usage() == {"shop": KeyUsage(requests=1, characters=250)}


async def test_a_request_is_counted_for_its_key_and_the_operator_reads_the_counts() -> None:
    meter = Meter(KeyLimits(characters=6))
    access = Access(
        keys_of(SecretStr(OPERATOR), [SecretStr(f"shop={SHOP}"), SecretStr(f"bot={BOT}")])
    )
    app = build(text_speakers(Sentences()), synthesis_of(), meter)
    body = {"model": "x", "voice": "mei", "input": "はい。はい。"}
    async with client_of(AccessMiddleware(app, access, refuse_openai)) as client:
        answers = [
            await client.post(
                "/v1/audio/speech", json=body, headers={"Authorization": f"Bearer {key}"}
            )
            for key in (SHOP, SHOP, BOT)
        ]
    async with client_of(AccessMiddleware(keys.build(meter), access, keys.refuse)) as client:
        read = await client.get("/metrics", headers={"X-API-Key": OPERATOR})
        others = await client.get("/metrics", headers={"X-API-Key": SHOP})

    assert [answer.status_code for answer in answers] == [200, 429, 200]
    assert others.status_code == 403
    lines = read.text.splitlines()
    assert 'voice_avatar_characters_today{key="shop"} 6' in lines
    assert 'voice_avatar_characters_today{key="bot"} 6' in lines
    assert 'voice_avatar_seconds_today{key="shop"} 0.0' in lines


@pytest.mark.parametrize(
    "entry", ["0123456789abcdef", f"={SHOP}", "shop=short", f"a b={SHOP}", f"operator={SHOP}"]
)
def test_a_key_without_a_name_of_its_own_or_too_short_is_refused(entry: str) -> None:
    assert keys_of(SecretStr(BOT), [SecretStr(f"shop={SHOP}")]) == {"operator": BOT, "shop": SHOP}
    with pytest.raises(SettingsError, match="expected NAME=KEY"):
        keys_of(SecretStr(BOT), [SecretStr(entry)])
