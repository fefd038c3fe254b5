from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from functions.api.own_characters.trainer import TrainerCall
from tests.support.virtual_time import settle

URL = "http://127.0.0.1:1/"


async def test_the_trainer_is_called_and_nobody_waits_for_it() -> None:
    called, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(_request: httpx.Request) -> httpx.Response:
        called.set()
        await may_answer.wait()
        return httpx.Response(202)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        TrainerCall(client, URL)()
        async with asyncio.timeout(5):
            await called.wait()
        may_answer.set()
        await settle()


@pytest.mark.parametrize("failure", [httpx.ConnectError("refused"), None])
async def test_a_trainer_that_does_not_answer_well_is_told_in_the_log_alone(
    failure: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(_request: httpx.Request) -> httpx.Response:
        if failure is not None:
            raise failure
        return httpx.Response(500)

    caplog.set_level(logging.WARNING)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        TrainerCall(client, URL)()
        await settle()

    assert "the trainer was not called" in caplog.text
