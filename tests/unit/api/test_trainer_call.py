from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from functions.api.own_characters import TrainerCall
from shared.google.trainer import TrainerUnavailableError
from tests.support.virtual_time import settle

if TYPE_CHECKING:
    import pytest


class Trainer:
    """Answers when it is let to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.called, self.may_answer = asyncio.Event(), asyncio.Event()
        self.failure = failure

    async def __call__(self) -> None:
        self.called.set()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure


def call(trainer: Trainer) -> None:
    TrainerCall(trainer)()


async def test_the_trainer_is_called_and_nobody_waits_for_it() -> None:
    trainer = Trainer()
    call(trainer)
    async with asyncio.timeout(5):
        await trainer.called.wait()
    trainer.may_answer.set()
    await settle()


async def test_a_trainer_that_does_not_answer_well_is_told_in_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    trainer = Trainer(TrainerUnavailableError("the trainer was not started: refused"))
    trainer.may_answer.set()
    call(trainer)
    await settle()

    assert "the trainer was not started: refused" in caplog.text
