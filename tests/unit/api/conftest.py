from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.unit.api.stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(folder=tmp_path)


@pytest_asyncio.fixture
async def client(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    async with stage.client() as opened:
        yield opened
