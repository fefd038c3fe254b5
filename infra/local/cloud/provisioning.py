"""Makes the local cloud's buckets, topics and subscriptions; Terraform makes the real ones."""

from __future__ import annotations

import base64
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from infra.local.cloud.memory import Subscription
from infra.local.configuration import names
from shared.google.sharded_bucket import shard_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from infra.local.configuration.environments import Addresses
    from shared.runtime.settings import Timeouts


def plan_subscriptions(addresses: Addresses, timeouts: Timeouts) -> tuple[Subscription, ...]:
    """Return every push subscription: two for the work on a voice, and two for dead letters."""

    def push(
        topic: str, endpoint: str, *, dead_letters: bool, unless: str | None = None
    ) -> Subscription:
        dead = names.topic_path(topic + names.DEAD_SUFFIX) if dead_letters else None
        return Subscription(
            name=names.subscription_path(f"{topic}-push"),
            topic=names.topic_path(topic),
            endpoint=endpoint,
            acknowledgement_seconds=timeouts.acknowledgement,
            dead_letter_topic=dead,
            unless=unless,
        )

    uploads, conversions = names.UPLOADS_TOPIC, names.CONVERSIONS_TOPIC
    return (
        # Recordings are overwritten only when they are emptied.
        push(uploads, addresses.on_upload, dead_letters=True, unless="overwroteGeneration"),
        push(conversions, f"{addresses.convert}/push", dead_letters=True),
        push(uploads + names.DEAD_SUFFIX, addresses.dead_letter, dead_letters=False),
        push(conversions + names.DEAD_SUFFIX, addresses.dead_letter, dead_letters=False),
    )


async def make_buckets(
    client: httpx.AsyncClient, storage: str, origins: Sequence[str], *, shards: int = 1
) -> None:
    cors = {
        "origin": list(origins),
        "method": ["GET", "PUT"],
        "responseHeader": [
            "Content-Type",
            "x-goog-content-length-range",
            "x-goog-if-generation-match",
        ],
        "maxAgeSeconds": 3600,
    }
    uploads = shard_names(names.UPLOADS_BUCKET, shards)
    buckets: tuple[dict[str, Any], ...] = (
        *({"name": name, "cors": [cors]} for name in uploads),
        *({"name": name, "cors": [cors]} for name in shard_names(names.RESULTS_BUCKET, shards)),
        {"name": names.CHARACTERS_BUCKET},
        {"name": names.OWN_RECORDINGS_BUCKET, "cors": [cors]},
    )
    for bucket in buckets:
        url = f"{storage}/storage/v1/b?project={names.PROJECT_ID}"
        await send(client, "POST", url, bucket)
    notification = {
        "topic": f"//pubsub.googleapis.com/{names.topic_path(names.UPLOADS_TOPIC)}",
        "event_types": ["OBJECT_FINALIZE"],
        "payload_format": "JSON_API_V1",
    }
    for name in uploads:
        await send(
            client, "POST", f"{storage}/storage/v1/b/{name}/notificationConfigs", notification
        )


async def make_subscriptions(
    client: httpx.AsyncClient, pubsub: str, subscriptions: Sequence[Subscription]
) -> None:
    """Make the topics and their subscriptions in Google's emulator.

    Each dead-letter topic also has a pull subscription that keeps the messages. An emulator that
    has run before may have all of them already. The push subscriptions, whose endpoints belong to
    an earlier local cloud, are then replaced; the pull subscriptions keep their messages.
    """
    for subscription in subscriptions:
        await make(client, f"{pubsub}/v1/{subscription.topic}", {})
    for subscription in subscriptions:
        url, resource = f"{pubsub}/v1/{subscription.name}", resource_of(subscription)
        if not await make(client, url, resource):
            await send(client, "DELETE", url)
            await send(client, "PUT", url, resource)
        if subscription.dead_letter_topic is None:
            topic_id = subscription.topic.rpartition("/")[2]
            retained = names.subscription_path(f"{topic_id}-retained")
            await make(client, f"{pubsub}/v1/{retained}", {"topic": subscription.topic})


async def publish(
    client: httpx.AsyncClient, pubsub: str, topic: str, data: bytes, attributes: Mapping[str, str]
) -> None:
    message = {"data": base64.b64encode(data).decode(), "attributes": dict(attributes)}
    await send(client, "POST", f"{pubsub}/v1/{topic}:publish", {"messages": [message]})


def resource_of(subscription: Subscription) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "topic": subscription.topic,
        "pushConfig": {"pushEndpoint": subscription.endpoint},
        "ackDeadlineSeconds": int(subscription.acknowledgement_seconds),
        "retryPolicy": {
            "minimumBackoff": f"{subscription.first_backoff_seconds:g}s",
            "maximumBackoff": f"{subscription.longest_backoff_seconds:g}s",
        },
    }
    if subscription.filter is not None:
        # The emulator delivers everything all the same.
        resource["filter"] = subscription.filter
    if subscription.dead_letter_topic is not None:
        resource["deadLetterPolicy"] = {
            "deadLetterTopic": subscription.dead_letter_topic,
            "maxDeliveryAttempts": subscription.attempts,
        }
    return resource


async def make(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> bool:
    """Create the resource at a URL; return False if it exists."""
    response = await client.put(url, json=body)
    if response.status_code == HTTPStatus.CONFLICT:
        return False
    response.raise_for_status()
    return True


async def send(
    client: httpx.AsyncClient, method: str, url: str, body: dict[str, Any] | None = None
) -> None:
    response = await client.request(method, url, json=body)
    response.raise_for_status()
