"""The local cloud bounds its connections as production does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import hypercorn.protocol
import pytest
from hypercorn.protocol.h2 import H2Protocol

from infra.local.cloud.start import local_cloud
from infra.local.configuration.options import CloudOptions
from shared.container.protocols import MOST_RESETS
from tests.unit.container.test_http2 import a_client, answer_to, begin

if TYPE_CHECKING:
    from pathlib import Path


async def test_requests_that_are_taken_back_at_once_close_their_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a new process, whatever servers other tests have started in this one.
    monkeypatch.setattr(hypercorn.protocol, "H2Protocol", H2Protocol)
    async with (
        local_cloud(CloudOptions(folder=tmp_path), embedded=True) as cloud,
        asyncio.timeout(30),
    ):
        addresses = cloud.addresses
        for address in (addresses.api, addresses.storage, str(addresses.live)):
            host, port = address.removeprefix("http://").split(":")
            connection, client = await asyncio.open_connection(host, port), a_client()
            for number in range(2 * MOST_RESETS):
                begin(client, 2 * number + 1)
                client.reset_stream(2 * number + 1)
            with pytest.raises(ConnectionError, match="11"):
                await answer_to(client, connection, 4 * MOST_RESETS + 1)
            connection[1].close()
