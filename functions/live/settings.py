"""The settings of `live`."""

from __future__ import annotations

import math
from typing import Annotated, Final

from pydantic import Field

from shared.container.process_plan import read_resources
from shared.conversion.settings import ConverterSettings
from shared.runtime.settings import CommaSeparated, SecretKeys  # noqa: TC001 - pydantic reads them

CATCHING_UP_SECONDS: Final = 20.0
"""A client's time beyond the longest recording, because its network may be slow."""

HANDING_BACK_SECONDS: Final = 3.0
"""How long it may take to hand voices back."""

HEARINGS_PER_CPU: Final = 4
"""How many visitors may hear the character for each CPU: they take a fifth of it together, so that
the conversions of complete recordings do not wait."""


def _planned_hearings() -> int:
    return max(1, math.floor(HEARINGS_PER_CPU * read_resources().cpus))


class LiveSettings(ConverterSettings):
    """Settings of `live`; it always runs as one process.

    Attributes:
        allowed_origins: the web sites whose pages may open a WebSocket; the same as the api's.
        live_ticket_keys: the secret keys of the tickets, separated by commas; all of them verify.
        sockets: how many WebSockets may be open at once.
        sockets_per_client: how many of them may be one client's; 0 for no limit.
        trusted_proxies: how many proxies have written into `X-Forwarded-For`; as for the api.
        hearings: how many recordings may be decoded while they come, at once, so that visitors hear
            the character or slow characters are converted ahead; 0 for none. The default is four
            for each CPU.
        max_messages: how many messages a client may send in one connection.
        max_held_bytes: how many bytes of recordings all connections together may hold in memory.
    """

    allowed_origins: CommaSeparated = ()
    live_ticket_keys: Annotated[SecretKeys, Field(min_length=1)]
    sockets: Annotated[int, Field(ge=1, le=1000)] = 40
    sockets_per_client: Annotated[int, Field(ge=0, le=1000)] = 8
    trusted_proxies: Annotated[int, Field(ge=0, le=10)] = 1
    hearings: Annotated[int, Field(ge=0, le=1000)] = Field(default_factory=_planned_hearings)
    max_messages: Annotated[int, Field(ge=10, le=1_000_000)] = 5000
    max_held_bytes: Annotated[int, Field(ge=1000)] = 64_000_000

    @property
    def processes(self) -> int:
        """How many processes there are: one, because a recording comes to the memory of one."""
        return 1

    @property
    def listening_seconds(self) -> float:
        """How long a connection may take until `end`: the recording, and time to catch up."""
        return self.max_seconds + CATCHING_UP_SECONDS

    @property
    def finishing_seconds(self) -> float:
        """How long recordings that are complete may take when the instance stops.

        After that their voices are handed back; the rest of the time is for that.
        """
        return max(1.0, self.graceful_timeout - HANDING_BACK_SECONDS)
