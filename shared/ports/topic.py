"""The port to one topic: where messages are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Publisher(Protocol):
    """Puts messages on one topic."""

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish a message; returns when it is safe with Pub/Sub.

        Raises:
            PublishError: it is not.
        """
        ...

    async def aclose(self) -> None:
        """Close what the publisher holds open."""
        ...
