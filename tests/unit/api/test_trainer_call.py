from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from functions.api.own_characters import TrainerCall
from shared.google.trainer import TrainerUnavailableError
from tests.support.virtual_time import settle

if TYPE_CHECKING:
    import pytest


async def test_nobody_waits_for_the_trainer_whose_failure_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called, may_answer = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        called.set()
        await may_answer.wait()
        raise TrainerUnavailableError("the trainer was not started: refused")

    caplog.set_level(logging.WARNING)
    TrainerCall(start)()
    async with asyncio.timeout(5):
        await called.wait()
    may_answer.set()
    await settle()

    assert "the trainer was not started: refused" in caplog.text
