"""Buckets and objects, through the unmodified client library, and who may use the JSON API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions

from tests.integration.storage.serving import RecordingTopic, Server, connected, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import requests
    from cryptography.hazmat.primitives.asymmetric import rsa

    from tests.integration.storage.serving import Server


def test_buckets_are_made_once_and_listed_by_name_and_prefix(client: Any) -> None:
    for name in ("results", "uploads-b", "uploads-a"):
        client.create_bucket(name)
    with pytest.raises(exceptions.Conflict):
        client.create_bucket("results")

    def listed(**options: Any) -> list[str]:
        return [bucket.name for bucket in client.list_buckets(**options)]

    assert listed() == ["results", "uploads-a", "uploads-b"]
    assert listed(prefix="up") == ["uploads-a", "uploads-b"]
    assert listed(project="other-project") == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example:8080"},
        {"Host": "127.0.0.1.evil.example"},
    ],
)
def test_a_web_page_cannot_drive_the_json_api(
    bucket: Any, server: Server, http: requests.Session, headers: dict[str, str]
) -> None:
    bucket.blob("a").upload_from_string(b"secret")
    for host in ("LOCALHOST:80", "[::1]:1", "[::1]"):
        assert http.get(f"{server.url}/storage/v1/b?project=p", headers={"Host": host}).ok

    for method, path in (
        ("POST", "/storage/v1/b?project=p"),
        ("GET", "/storage/v1/b?project=p"),
        ("POST", "/upload/storage/v1/b/uploads/o?uploadType=multipart&name=a"),
        ("GET", "/download/storage/v1/b/uploads/o/a?alt=media"),
    ):
        response = http.request(
            method, f"{server.url}{path}", headers=headers, json={"name": "evil"}
        )
        assert response.status_code == 403
        assert b"secret" not in response.content
        assert not any(name.lower().startswith("access-control") for name in response.headers)


def write(bucket: Any, *names: str) -> None:
    for name in names:
        bucket.blob(name).upload_from_string(b"x")


def names_of(blobs: Any) -> list[str]:
    return [blob.name for blob in blobs]


def test_an_object_has_its_content_type_and_metadata(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    blob = bucket.blob("folder/größe")
    blob.metadata = {"kept": "ü"}
    blob.cache_control = "no-store"
    blob.upload_from_string(b"sound", content_type="audio/webm")

    found = bucket.get_blob("folder/größe")
    assert found.download_as_bytes() == b"sound"
    assert (found.content_type, found.size) == ("audio/webm", 5)
    assert (found.metadata, found.cache_control) == ({"kept": "ü"}, "no-store")
    assert isinstance(found.time_created, datetime)
    resource = http.get(f"{server.url}/storage/v1/b/uploads/o/folder%2Fgr%C3%B6%C3%9Fe").json()
    generation = str(blob.generation)
    assert (resource["size"], resource["generation"]) == ("5", generation)
    assert resource["kind"] == "storage#object"
    assert resource["id"] == f"uploads/folder/größe/{generation}"


def test_generations_are_microseconds_and_always_rise(bucket: Any, server: Server) -> None:
    blob = bucket.blob("a")
    generations = []
    for ahead in (0, 0, -3600, -7200):
        server.clock.ahead = timedelta(seconds=ahead)
        blob.upload_from_string(b"x")
        generations.append(blob.generation)
        if ahead == -3600:
            blob.delete()

    assert generations == sorted(set(generations))
    assert abs(generations[0] - datetime.now(UTC).timestamp() * 1e6) < 60e6


def test_what_was_replaced_or_deleted_is_gone_with_its_content(bucket: Any, server: Server) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"old")
    old = bucket.blob("a", generation=blob.generation)
    bucket.blob("a").upload_from_string(b"new")

    with pytest.raises(exceptions.NotFound):
        old.download_as_bytes()
    with pytest.raises(exceptions.NotFound):
        old.reload()
    assert bucket.blob("a").download_as_bytes() == b"new"
    bucket.blob("a").delete()
    assert (bucket.get_blob("a"), server.contents()) == (None, [])
    with pytest.raises(exceptions.NotFound):
        bucket.blob("a").delete()


def test_listing_is_in_order_and_takes_prefix_and_count(bucket: Any) -> None:
    write(bucket, "b/2", "a", "b/1", "b/c/3", "é", "z")

    assert names_of(bucket.list_blobs()) == ["a", "b/1", "b/2", "b/c/3", "z", "é"]
    assert names_of(bucket.list_blobs(prefix="b/")) == ["b/1", "b/2", "b/c/3"]
    assert names_of(bucket.list_blobs(max_results=2)) == ["a", "b/1"]
    paged = [names_of(page) for page in bucket.list_blobs(page_size=2).pages]
    assert paged == [["a", "b/1"], ["b/2", "b/c/3"], ["z", "é"]]


def test_what_is_not_offered_is_refused_and_not_ignored(bucket: Any) -> None:
    write(bucket, "a")
    blob = bucket.blob("a")
    for ask in (
        lambda: list(bucket.list_blobs(match_glob="*.wav", retry=None)),
        lambda: list(bucket.list_blobs(delimiter="/", retry=None)),
        lambda: blob.delete(if_metageneration_match=1, retry=None),
        lambda: blob.upload_from_string(b"x", if_generation_not_match=0, retry=None),
        lambda: bucket.notification(topic_name="t", payload_format="NONE").create(retry=None),
    ):
        with pytest.raises(exceptions.MethodNotImplemented):
            ask()


def test_reads_obey_their_preconditions(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"x")

    with pytest.raises(exceptions.PreconditionFailed):
        blob.download_as_bytes(if_generation_match=12345)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.reload(if_generation_match=1)
    assert blob.download_as_bytes(if_generation_match=blob.generation) == b"x"


def test_writes_obey_their_preconditions(bucket: Any) -> None:
    blob = bucket.blob("a")
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"x", if_generation_match=5)
    blob.upload_from_string(b"x", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"y", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("a").delete(if_generation_match=blob.generation + 1)

    assert bucket.blob("a").download_as_bytes() == b"x"
    bucket.blob("a").delete(if_generation_match=blob.generation)
    assert bucket.get_blob("a") is None


@pytest.mark.usefixtures("bucket")
def test_a_request_that_makes_no_sense_is_refused_in_the_form_of_the_json_api(
    server: Server, http: requests.Session
) -> None:
    message = "No such object: uploads/missing"
    missing = http.get(f"{server.url}/storage/v1/b/uploads/o/missing")
    errors = [{"message": message, "domain": "global", "reason": "notFound"}]
    assert missing.json() == {"error": {"code": 404, "message": message, "errors": errors}}
    for method, path, status in (
        ("GET", "/storage/v1/nonsense", 404),
        ("DELETE", "/storage/v1/b/uploads/o", 405),
        ("GET", "/storage/v1/b/uploads/o/a?generation=x", 400),
        ("GET", "/storage/v1/b/uploads/o?pageToken=%25", 400),
        ("GET", "/storage/v1/b", 400),
        ("GET", "/storage/v1/b/uploads/o/%ff", 400),
        ("POST", "/upload/storage/v1/b/uploads/o?name=a", 501),
        ("POST", "/upload/storage/v1/b/missing/o?name=a&uploadType=resumable", 404),
        ("POST", "/storage/v1/b/uploads/o/a/compose", 404),
    ):
        response = http.request(method, f"{server.url}{path}")
        assert response.status_code == response.json()["error"]["code"] == status, path


def test_a_server_begins_empty_and_leaves_no_contents_behind(
    tmp_path: Path, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with (
            served(tmp_path, key, RecordingTopic()) as server,
            connected(server, monkeypatch) as client,
        ):
            write(client.create_bucket("uploads"), "a")
            assert len(server.contents()) == 1
        assert list(tmp_path.iterdir()) == []


def test_a_resource_without_end_is_refused(server: Server, http: requests.Session) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"name": "'
        for _ in range(64):
            yield b"a" * (1 << 20)

    buckets = f"{server.url}/storage/v1/b?project=a"
    answer = http.post(buckets, data=pieces())
    assert (answer.status_code, "too large" in answer.text) == (400, True)

    nested = http.post(buckets, data=b'{"a":' * 100_000)
    assert (nested.status_code, "not JSON" in nested.text) == (400, True)


def test_holds_and_metadata_other_than_text_are_refused(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    url = f"{server.url}/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&name=a"

    assert http.post(url, json={"temporaryHold": True}).status_code == 501
    assert http.post(url, json={"metadata": {"k": 1}}).status_code == 400
    assert http.post(url, json={"contentType": "a\r\nX: y"}).status_code == 400
    assert http.post(url, data=b"{").status_code == 400
    assert http.post(url, json=[1]).status_code == 400
