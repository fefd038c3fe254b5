from __future__ import annotations

from contextlib import aclosing

import pytest

from shared.google.latest_state import Mailbox
from shared.ports.store import StoreUnavailableError
from tests.support.voices import a_queued, a_waiting


async def test_the_newest_state_is_taken_and_older_ones_are_skipped() -> None:
    mailbox, newest = Mailbox(), a_queued()
    mailbox.put(a_waiting())
    mailbox.put(newest)

    async with aclosing(mailbox.states()) as states:
        assert await anext(states) == newest
        mailbox.put(None)
        assert await anext(states) is None


async def test_an_error_ends_the_waiting() -> None:
    mailbox = Mailbox()
    mailbox.put(a_waiting())
    mailbox.fail(StoreUnavailableError("gone"))

    async with aclosing(mailbox.states()) as states:
        with pytest.raises(StoreUnavailableError, match="gone"):
            await anext(states)
