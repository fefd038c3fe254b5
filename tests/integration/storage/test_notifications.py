"""Notifications of changes, as Cloud Storage publishes them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions

from tests.integration.storage.serving import PROJECT, RecordingTopic, Server, upload_url

if TYPE_CHECKING:
    import requests


@pytest.fixture
def notification(bucket: Any) -> Any:
    made = bucket.notification(
        topic_name="uploads-topic",
        event_types=["OBJECT_FINALIZE"],
        payload_format="JSON_API_V1",
    )
    made.create()
    return made


def test_a_signed_upload_is_published_in_cloud_storages_format(
    *,
    bucket: Any,
    notification: Any,
    credentials: Any,
    topic: RecordingTopic,
    http: requests.Session,
    server: Server,
) -> None:
    url, headers = upload_url(bucket.blob("v/ü.webm"), credentials)
    http.put(url, data=b"sound", headers=headers)

    message = topic.next()

    resource = http.get(f"{server.url}/storage/v1/b/uploads/o/v%2F%C3%BC.webm").json()
    event_time = message.attributes.pop("eventTime")
    assert message.topic == f"projects/{PROJECT}/topics/uploads-topic"
    assert message.attributes == {
        "notificationConfig": (
            f"projects/_/buckets/uploads/notificationConfigs/{notification.notification_id}"
        ),
        "eventType": "OBJECT_FINALIZE",
        "payloadFormat": "JSON_API_V1",
        "bucketId": "uploads",
        "objectId": "v/ü.webm",
        "objectGeneration": resource["generation"],
    }
    assert json.loads(message.data) == resource
    assert resource["size"] == "5"
    assert event_time.endswith("Z")
    created = bucket.get_blob("v/ü.webm").time_created
    assert abs(datetime.fromisoformat(event_time) - created) < timedelta(seconds=1)


@pytest.mark.usefixtures("notification")
def test_only_new_objects_are_published_with_the_generation_that_they_replace(
    bucket: Any, topic: RecordingTopic
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"old")
    old = str(blob.generation)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("a").upload_from_string(b"x", if_generation_match=7)
    blob.upload_from_string(b"new")
    blob.delete()

    first, second = sorted(
        (topic.next().attributes for _ in range(2)), key=lambda each: each["objectGeneration"]
    )
    assert (first["objectGeneration"], "overwroteGeneration" in first) == (old, False)
    assert second["objectGeneration"] == str(blob.generation)
    assert second["overwroteGeneration"] == old
    assert topic.is_empty()


@pytest.mark.usefixtures("notification")
def test_a_message_that_fails_or_hangs_is_repeated_and_does_not_hold_up_the_others(
    bucket: Any, topic: RecordingTopic
) -> None:
    topic.fail(3)
    topic.hang(1)

    for index in range(20):
        bucket.blob(str(index)).upload_from_string(b"x")

    told = {topic.next().attributes["objectId"] for _ in range(20)}
    assert told == {str(index) for index in range(20)}


def test_a_malformed_configuration_is_refused(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    url, topic = f"{server.url}/storage/v1/b/{bucket.name}/notificationConfigs", "topics/t"
    fields = {"event_types": ["OBJECT_FINALIZE"], "payload_format": "JSON_API_V1"}
    pubsub = "//pubsub.googleapis.com/projects"
    for body, status in (
        (fields, 400),
        (fields | {"topic": f"{pubsub}//{topic}"}, 400),
        (fields | {"topic": f"{pubsub}/p/{topic}", "event_types": ["OBJECT_READ"]}, 501),
        (fields | {"topic": f"{pubsub}/p/{topic}", "object_name_prefix": "v/"}, 501),
    ):
        assert http.post(url, json=body).status_code == status, body
