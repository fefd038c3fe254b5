"""The contract of `Publisher`: each implementation's tests inherit it and define `topic`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from shared.ports import Publisher


@dataclass(frozen=True)
class Topic:
    """A publisher, and a function that waits for the next message that its topic delivers."""

    publisher: Publisher
    receive: Callable[[], Awaitable[tuple[bytes, Mapping[str, str]]]]


class PublisherContract:
    async def test_a_message_is_published_with_its_attributes(self, topic: Topic) -> None:
        await topic.publisher.publish(b"content", {"voice_id": "1", "uploaded_at": "now"})

        assert await topic.receive() == (b"content", {"voice_id": "1", "uploaded_at": "now"})

    async def test_every_message_is_published_whatever_its_bytes(self, topic: Topic) -> None:
        messages = {b"\x00\xff", b"second"}
        for each in messages:
            await topic.publisher.publish(each, {})

        received = [await topic.receive() for _ in messages]

        assert {data for data, _ in received} == messages
        assert all(attributes == {} for _, attributes in received)
