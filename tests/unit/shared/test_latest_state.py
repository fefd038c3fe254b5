from __future__ import annotations

from contextlib import aclosing

import pytest

from shared.ports.latest_state import LatestState
from shared.ports.store import StoreUnavailableError
from tests.support.voices import a_queued, a_waiting


async def test_the_newest_state_is_returned_and_older_ones_are_skipped() -> None:
    latest, newest = LatestState(), a_queued()
    latest.put(a_waiting())
    latest.put(newest)

    async with aclosing(latest.states()) as states:
        assert await anext(states) == newest
        latest.put(None)
        assert await anext(states) is None


async def test_an_error_ends_the_waiting() -> None:
    latest = LatestState()
    latest.put(a_waiting())
    latest.fail(StoreUnavailableError("gone"))

    async with aclosing(latest.states()) as states:
        with pytest.raises(StoreUnavailableError, match="gone"):
            await anext(states)
