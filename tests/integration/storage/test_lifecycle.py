"""Deletion by age, when the server starts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.integration.storage.serving import Clock, RecordingTopic, connected, served

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from cryptography.hazmat.primitives.asymmetric import rsa


def test_objects_older_than_the_buckets_limit_are_deleted_and_published_at_the_next_start(
    tmp_path: Path, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        served(tmp_path, key, RecordingTopic()) as server,
        connected(server, monkeypatch) as client,
    ):
        uploads = client.bucket("uploads")
        uploads.add_lifecycle_delete_rule(age=1)
        client.create_bucket(uploads)
        uploads.notification(topic_name="t", event_types=["OBJECT_DELETE"]).create()
        client.create_bucket("kept").blob("a").upload_from_string(b"x")
        server.clock.ahead = -timedelta(hours=25)
        uploads.blob("old").upload_from_string(b"x")
        server.clock.ahead = -timedelta(hours=23)
        uploads.blob("young").upload_from_string(b"x")

    topic = RecordingTopic()
    with served(tmp_path, key, topic, Clock()) as server, connected(server, monkeypatch) as client:
        message = topic.next()
        names = [blob.name for blob in client.list_blobs("uploads")]
        kept = [blob.name for blob in client.list_blobs("kept")]

    assert (message.attributes["eventType"], message.attributes["objectId"]) == (
        "OBJECT_DELETE",
        "old",
    )
    assert (names, kept) == (["young"], ["a"])
    assert topic.is_empty()
    assert len(list((tmp_path / "contents").iterdir())) == 2
