"""The port to one topic, to which messages are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Publisher(Protocol):
    """Publishes messages to one topic."""

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish a message; returns when the topic has stored it.

        Raises:
            PublishError: the topic did not accept it.
        """
        ...

    async def aclose(self) -> None:
        """Close the publisher's connections."""
        ...
