"""Running a coroutine in the background of a block."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine


@asynccontextmanager
async def running_in_background(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run a coroutine while the block runs, and cancel it at the end.

    Raises:
        Exception: what the coroutine raised, when the block ends without an error of its own.
    """
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
