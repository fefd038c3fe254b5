from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest_asyncio

from shared.speech.decoding.decoder import Decoder
from tests.unit.train.stage import RunnerStage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[RunnerStage]:
    async with Decoder(max_processes=1) as decoder:
        yield RunnerStage(decoder, tmp_path, sys.executable)
