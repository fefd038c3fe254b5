"""The settings of `live`."""

from __future__ import annotations

import math
from typing import Annotated, Final

from pydantic import Field

from shared.container.process_plan import read_resources
from shared.conversion.settings import ConverterSettings
from shared.runtime.settings import CommaSeparated, SecretKeys  # noqa: TC001 - pydantic reads them

# A client's time beyond the longest recording, because its network may be slow.
CATCHING_UP_SECONDS: Final = 20.0

HANDING_BACK_SECONDS: Final = 3.0  # the time for handing voices back

# Visitors that hear the character for each CPU: together they take a fifth of it, so that the
# conversions of complete recordings do not wait.
HEARINGS_PER_CPU: Final = 4


class LiveSettings(ConverterSettings):
    """Settings of `live`; it always runs as one process.

    Attributes:
        allowed_origins: the web sites whose pages may open a WebSocket; the same as the api's.
        live_ticket_keys: the secret keys of the tickets, separated by commas; all of them verify.
        sockets: the most WebSockets that are open at once.
        sockets_per_client: the most of them of one client; 0 for no limit.
        trusted_proxies: the number of proxies that write `X-Forwarded-For`; as for the api.
        hearings: the most recordings that are decoded at once while they come, so that visitors
            hear the character or slow characters are converted ahead; 0 for none. The default is
            four for each CPU.
        max_messages: the most messages of a client in one connection.
        max_held_bytes: the most bytes of recordings that all connections hold in memory together.
    """

    allowed_origins: CommaSeparated = ()
    live_ticket_keys: Annotated[SecretKeys, Field(min_length=1)]
    sockets: Annotated[int, Field(ge=1, le=1000)] = 40
    sockets_per_client: Annotated[int, Field(ge=0, le=1000)] = 8
    trusted_proxies: Annotated[int, Field(ge=0, le=10)] = 1
    hearings: Annotated[int, Field(ge=0, le=1000)] = Field(
        default_factory=lambda: max(1, math.floor(HEARINGS_PER_CPU * read_resources().cpus))
    )
    max_messages: Annotated[int, Field(ge=10, le=1_000_000)] = 5000
    max_held_bytes: Annotated[int, Field(ge=1000)] = 64_000_000

    @property
    def processes(self) -> int:
        """One, because a recording comes to the memory of one process."""
        return 1

    @property
    def listening_seconds(self) -> float:
        """The time of a connection until `end`: the recording, and time to catch up."""
        return self.max_seconds + CATCHING_UP_SECONDS

    @property
    def finishing_seconds(self) -> float:
        """The time for complete recordings at the end, before their voices are handed back."""
        return max(1.0, self.graceful_timeout - HANDING_BACK_SECONDS)
