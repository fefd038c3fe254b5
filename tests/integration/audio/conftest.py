from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from shared.speech.decoding.decoder import Decoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def decoder() -> AsyncIterator[Decoder]:
    """One decoder for a whole module, because a zygote serves any number of recordings."""
    async with Decoder() as running:
        yield running
