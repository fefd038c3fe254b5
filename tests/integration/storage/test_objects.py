"""Objects, through the unmodified client library."""

from __future__ import annotations

import itertools
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests
from google.api_core import exceptions

from tests.integration.storage.serving import RecordingTopic, Server, connected, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric import rsa


def test_an_upload_is_downloaded_with_its_type_and_metadata(bucket: Any) -> None:
    blob = bucket.blob("folder/voice.webm")
    blob.metadata = {"character": "robot", "größe": "ü"}
    blob.cache_control = "no-store"
    blob.upload_from_string(b"sound", content_type="audio/webm")

    found = bucket.get_blob("folder/voice.webm")

    assert found.download_as_bytes() == b"sound"
    assert (found.content_type, found.size, found.metageneration) == ("audio/webm", 5, 1)
    assert found.metadata == {"character": "robot", "größe": "ü"}
    assert found.cache_control == "no-store"
    assert isinstance(found.time_created, datetime)
    assert found.name == "folder/voice.webm"


def test_generation_and_size_are_strings_on_the_wire(bucket: Any, server: Server) -> None:
    bucket.blob("a").upload_from_string(b"four")

    resource = requests.get(f"{server.url}/storage/v1/b/uploads/o/a", timeout=5).json()

    assert resource["size"] == "4"
    assert resource["generation"].isdigit()
    assert resource["kind"] == "storage#object"
    assert resource["id"] == f"uploads/a/{resource['generation']}"


def test_generations_are_microseconds_and_always_rise(bucket: Any, server: Server) -> None:
    blob = bucket.blob("a")
    generations = []
    for ahead in (0, 0, -3600, -7200):
        server.clock.ahead = timedelta(seconds=ahead)
        blob.upload_from_string(b"x")
        generations.append(blob.generation)
        if ahead == -3600:
            blob.delete()

    now = datetime.now(UTC).timestamp() * 1e6

    assert generations == sorted(set(generations))
    assert abs(generations[0] - now) < 60e6


def test_a_replaced_generation_is_gone(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"old")
    old = bucket.blob("a", generation=blob.generation)
    bucket.blob("a").upload_from_string(b"new")

    with pytest.raises(exceptions.NotFound):
        old.download_as_bytes()
    with pytest.raises(exceptions.NotFound):
        old.reload()
    assert bucket.blob("a").download_as_bytes() == b"new"


@pytest.mark.parametrize(
    ("header", "status", "body", "content_range"),
    [
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-30", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=5-2", 200, b"0123456789", None),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=8-400", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=10-20", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
    ],
)
def test_ranges_are_answered_as_http_says(
    *,
    bucket: Any,
    server: Server,
    header: str,
    status: int,
    body: bytes | None,
    content_range: str | None,
) -> None:
    bucket.blob("a").upload_from_string(b"0123456789")
    url = f"{server.url}/download/storage/v1/b/uploads/o/a?alt=media"

    response = requests.get(url, headers={"Range": header}, timeout=5)

    assert response.status_code == status
    assert response.headers.get("Content-Range") == content_range
    if body is None:
        reason = response.json()["error"]["errors"][0]["reason"]
        assert reason == "requestedRangeNotSatisfiable"
    else:
        assert response.content == body


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_number_of_too_many_digits_is_refused(bucket: Any, server: Server, digits: int) -> None:
    bucket.blob("a").upload_from_string(b"0123456789")
    huge = "9" * digits
    media = f"{server.url}/storage/v1/b/uploads/o/a?alt=media"
    upload = f"{server.url}/upload/storage/v1/b/uploads/o?uploadType=resumable&name=b"
    location = requests.post(upload, timeout=5).headers["Location"]

    answers = [
        requests.get(media, headers={"Range": f"bytes={huge}-"}, timeout=5),
        requests.get(media, headers={"Range": f"bytes=0-{huge}"}, timeout=5),
        requests.get(media, headers={"Range": f"bytes=-{huge}"}, timeout=5),
        requests.get(f"{media}&generation={huge}", timeout=5),
        requests.get(f"{media}&ifGenerationMatch={huge}", timeout=5),
        requests.post(upload, headers={"X-Upload-Content-Length": huge}, timeout=5),
        requests.put(location, headers={"Content-Range": f"bytes 0-{huge}/*"}, timeout=5),
    ]

    assert {answer.status_code for answer in answers} <= {400, 416}


def test_a_request_with_a_length_and_chunks_is_refused(bucket: Any, server: Server) -> None:
    request = (
        "POST /upload/storage/v1/b/uploads/o?uploadType=media&name=a HTTP/1.1\r\n"
        f"Host: {server.host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nsound\r\n0\r\n\r\n"
    )
    host, _, port = server.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(request.encode())
        status = connection.makefile("rb").readline()

    assert b" 400 " in status
    assert bucket.get_blob("a") is None


def test_deleting_removes_object_and_content(bucket: Any, server: Server) -> None:
    bucket.blob("a").upload_from_string(b"x")

    bucket.blob("a").delete()

    assert bucket.get_blob("a") is None
    assert server.contents() == []
    with pytest.raises(exceptions.NotFound):
        bucket.blob("a").delete()


def test_listing_is_in_order_and_takes_prefix_and_delimiter(bucket: Any) -> None:
    for name in ("b/2", "a", "b/1", "b/c/3", "é", "z"):
        bucket.blob(name).upload_from_string(b"x")

    everything = [blob.name for blob in bucket.list_blobs()]
    below = bucket.list_blobs(prefix="b/", delimiter="/")
    top = bucket.list_blobs(delimiter="/")

    assert everything == ["a", "b/1", "b/2", "b/c/3", "z", "é"]
    assert [blob.name for blob in below] == ["b/1", "b/2"]
    assert below.prefixes == {"b/c/"}
    assert [blob.name for blob in top] == ["a", "z", "é"]
    assert top.prefixes == {"b/"}


def test_listing_pages_without_gap_or_repetition(bucket: Any) -> None:
    names = [f"{folder}/{index}" for folder in "abc" for index in range(3)] + ["d", "e"]
    for name in names:
        bucket.blob(name).upload_from_string(b"x")

    paged = [blob.name for page in bucket.list_blobs(page_size=2).pages for blob in page]
    folders = bucket.list_blobs(delimiter="/", page_size=1)
    pages = [[blob.name for blob in page] for page in folders.pages]

    assert paged == names
    assert list(itertools.chain.from_iterable(pages)) == ["d", "e"]
    assert folders.prefixes == {"a/", "b/", "c/"}


def test_listing_can_be_bounded_by_offsets_and_count(bucket: Any) -> None:
    for name in "abcdef":
        bucket.blob(name).upload_from_string(b"x")

    assert [blob.name for blob in bucket.list_blobs(start_offset="b", end_offset="e")] == list(
        "bcd"
    )
    assert [blob.name for blob in bucket.list_blobs(max_results=2)] == list("ab")
    with pytest.raises(exceptions.MethodNotImplemented, match="matchGlob"):
        list(bucket.list_blobs(match_glob="*.wav", retry=None))


@pytest.mark.parametrize("condition", [1, 12345])
def test_reads_obey_if_generation_match(bucket: Any, condition: int) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"x")

    with pytest.raises(exceptions.PreconditionFailed):
        blob.download_as_bytes(if_generation_match=condition)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.reload(if_generation_match=condition)
    assert blob.download_as_bytes(if_generation_match=blob.generation) == b"x"


def test_a_conditional_read_of_an_unchanged_object_is_answered_not_modified(
    bucket: Any, server: Server
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"x")
    url = f"{server.url}/storage/v1/b/uploads/o/a"

    for query in (
        {"ifGenerationNotMatch": str(blob.generation)},
        {"ifMetagenerationNotMatch": "1"},
        {"ifGenerationNotMatch": str(blob.generation), "alt": "media"},
    ):
        response = requests.get(url, params=query, timeout=5)
        assert (response.status_code, response.content) == (304, b"")
    assert requests.get(url, params={"ifGenerationNotMatch": "0"}, timeout=5).status_code == 200


def test_writes_obey_their_preconditions(bucket: Any) -> None:
    blob = bucket.blob("a")
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"x", if_generation_match=5)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"x", if_generation_not_match=0)
    blob.upload_from_string(b"x", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"y", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("a").delete(if_metageneration_match=2)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("a").delete(if_generation_match=blob.generation + 1)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("a").delete(if_metageneration_not_match=1)

    assert bucket.blob("a").download_as_bytes() == b"x"
    bucket.blob("a").delete(if_generation_match=blob.generation)
    assert bucket.get_blob("a") is None


@pytest.mark.usefixtures("bucket")
def test_errors_have_the_shape_of_the_json_api(server: Server) -> None:
    response = requests.get(f"{server.url}/storage/v1/b/uploads/o/missing", timeout=5)

    assert response.status_code == 404
    assert response.json() == {
        "error": {
            "code": 404,
            "message": "No such object: uploads/missing",
            "errors": [
                {
                    "message": "No such object: uploads/missing",
                    "domain": "global",
                    "reason": "notFound",
                }
            ],
        }
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/storage/v1/nonsense", 404),
        ("DELETE", "/storage/v1/b/uploads/o", 405),
        ("GET", "/storage/v1/b/uploads/o/a?generation=x", 400),
        ("GET", "/storage/v1/b/uploads/o/a?ifGenerationMatch=-1", 400),
        ("GET", "/storage/v1/b/uploads/o?pageToken=%25", 400),
        ("GET", "/storage/v1/b", 400),
        ("POST", "/upload/storage/v1/b/uploads/o?name=a", 400),
        ("POST", "/upload/storage/v1/b/missing/o?name=a&uploadType=media", 404),
        ("PATCH", "/storage/v1/b/uploads/o/missing", 404),
        ("PUT", "/storage/v1/b/uploads/o/missing", 405),
        ("POST", "/storage/v1/b/uploads/o/a/compose", 404),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_a_request_that_makes_no_sense_is_refused_in_json(
    server: Server, method: str, path: str, status: int
) -> None:
    response = requests.request(method, f"{server.url}{path}", timeout=5)

    assert response.status_code == status
    assert response.json()["error"]["code"] == status


def test_holds_and_metadata_other_than_text_are_refused(bucket: Any, server: Server) -> None:
    url = f"{server.url}/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&name=a"

    assert requests.post(url, json={"temporaryHold": True}, timeout=5).status_code == 501
    assert requests.post(url, json={"metadata": {"k": 1}}, timeout=5).status_code == 400
    assert requests.post(url, json={"contentType": "a\r\nX: y"}, timeout=5).status_code == 400
    assert requests.post(url, data=b"{", timeout=5).status_code == 400
    assert requests.post(url, json=[1], timeout=5).status_code == 400


def test_a_server_begins_empty_and_leaves_no_contents_behind(
    tmp_path: Path, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with (
            served(tmp_path, key, RecordingTopic()) as server,
            connected(server, monkeypatch) as client,
        ):
            client.create_bucket("uploads").blob("a").upload_from_string(b"sound")
            assert len(server.contents()) == 1
        assert list(tmp_path.iterdir()) == []


def test_fields_and_metadata_can_be_changed(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.metadata, blob.cache_control = {"kept": "1", "dropped": "2"}, "no-store"
    blob.upload_from_string(b"sound", content_type="audio/wav")
    generation = blob.generation

    blob.metadata = {"dropped": None, "new": "ü"}
    blob.content_type, blob.cache_control = "audio/ogg", None
    blob.patch(if_metageneration_match=1)

    found = bucket.get_blob("a")
    assert found.metadata == {"kept": "1", "new": "ü"}
    assert (found.content_type, found.cache_control) == ("audio/ogg", None)
    assert (found.generation, found.metageneration) == (generation, 2)
    assert found.download_as_bytes() == b"sound"
    with pytest.raises(exceptions.PreconditionFailed):
        blob.patch(if_metageneration_match=1)
    with pytest.raises(exceptions.NotFound):
        bucket.blob("b").patch()


def test_a_resource_without_end_is_refused(server: Server) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"name": "'
        for _ in range(64):
            yield b"a" * (1 << 20)

    buckets = f"{server.url}/storage/v1/b?project=a"
    answer = requests.post(buckets, data=pieces(), timeout=20)
    assert (answer.status_code, "too large" in answer.text) == (400, True)

    nested = requests.post(buckets, data=b'{"a":' * 100_000, timeout=20)
    assert (nested.status_code, "not JSON" in nested.text) == (400, True)
