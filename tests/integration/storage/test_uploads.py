"""Multipart and resumable uploads."""

from __future__ import annotations

import base64
import io
import os
from typing import TYPE_CHECKING, Any

import google_crc32c
import pytest
from google.api_core import exceptions

from tests.integration.storage.serving import Server, send_part

if TYPE_CHECKING:
    import requests

QUANTUM = 256 * 1024
MULTIPART = "multipart/related; boundary=sep"


class Pipe(io.BytesIO):
    """A stream of unknown length that cannot be rewound."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation("seek")


class Uploads:
    def __init__(self, server: Server, http: requests.Session) -> None:
        self.server, self.http = server, http

    def post(self, kind: str, name: str = "a", **options: Any) -> requests.Response:
        params = {"uploadType": kind, "name": name} | options.pop("params", {})
        url = f"{self.server.url}/upload/storage/v1/b/uploads/o"
        return self.http.post(url, params=params, **options)

    def begin(self, **options: Any) -> str:
        return self.post("resumable", **{"json": {}, **options}).headers["Location"]

    def put(self, location: str, content_range: str, data: bytes = b"") -> requests.Response:
        return self.http.put(location, data=data, headers={"Content-Range": content_range})


@pytest.fixture
def uploads(bucket: Any, server: Server, http: requests.Session) -> Uploads:
    assert bucket.name == "uploads"
    return Uploads(server, http)


@pytest.mark.parametrize("size", [0, 5_000_000, 9_000_001])
def test_a_file_of_known_size_is_uploaded_whole_or_in_chunks(bucket: Any, size: int) -> None:
    data = os.urandom(size)
    blob = bucket.blob("a")
    blob.metadata = {"k": "v"}

    blob.upload_from_file(io.BytesIO(data), size=size, checksum="md5", content_type="audio/wav")

    found = bucket.get_blob("a")
    assert (found.size, found.content_type, found.metadata) == (size, "audio/wav", {"k": "v"})
    assert found.download_as_bytes(checksum="crc32c") == data


@pytest.mark.parametrize("size", [0, QUANTUM, 2 * QUANTUM + 1])
def test_a_stream_of_unknown_size_is_uploaded(bucket: Any, size: int) -> None:
    data = os.urandom(size)
    bucket.blob("streamed", chunk_size=QUANTUM).upload_from_file(Pipe(data), checksum="crc32c")
    with bucket.blob("written").open("wb", chunk_size=QUANTUM) as file:
        file.write(data)

    assert bucket.blob("streamed").download_as_bytes() == data
    with bucket.blob("written").open("rb") as file:
        assert file.read() == data


def test_an_upload_in_chunks_obeys_its_preconditions(
    bucket: Any, server: Server, uploads: Uploads
) -> None:
    location = uploads.begin(params={"ifGenerationMatch": "0"})
    bucket.blob("a").upload_from_string(b"faster")

    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("a", chunk_size=QUANTUM).upload_from_file(Pipe(b"x"), if_generation_match=0)
    assert uploads.put(location, "bytes 0-5/6", b"slower").status_code == 412

    assert bucket.blob("a").download_as_bytes() == b"faster"
    assert len(server.contents()) == 1
    assert uploads.put(location, "bytes */*").status_code == 404


def test_an_interrupted_upload_goes_on_where_it_stopped(bucket: Any, uploads: Uploads) -> None:
    data = os.urandom(3 * QUANTUM + 5)
    total = len(data)
    location = uploads.begin()
    whole = {"Content-Range": f"bytes 0-{total - 1}/{total}"}
    send_part("PUT", location, whole, total, data[: 2 * QUANTUM + 1000])

    status = uploads.put(location, f"bytes */{total}")
    assert (status.status_code, status.headers["Range"]) == (308, f"bytes=0-{2 * QUANTUM - 1}")
    assert bucket.get_blob("a") is None
    rest = uploads.put(location, f"bytes {2 * QUANTUM}-{total - 1}/{total}", data[2 * QUANTUM :])

    assert (rest.status_code, rest.json()["size"]) == (200, str(total))
    assert bucket.blob("a").download_as_bytes(checksum="md5") == data


def test_a_content_range_that_contradicts_itself_or_the_session_is_refused(
    bucket: Any, uploads: Uploads
) -> None:
    location = uploads.begin(headers={"X-Upload-Content-Length": "20"})

    for content_range, size in (
        ("bytes 0-9/5", 10),
        (f"bytes 0-{2**63 - 1}/*", 10),
        ("bytes 5-2/10", 3),
        ("bytes 0-9/20", 12),
        ("bytes 0-9/20", 8),
        ("bytes 0-9/30", 10),
        ("bytes */x", 0),
    ):
        refused = uploads.put(location, content_range, b"x" * size)
        assert refused.status_code == 400, content_range
    gap = uploads.put(location, "bytes 10-19/20", b"x" * 10)
    status = uploads.put(location, "bytes */*")
    assert (gap.status_code, status.status_code, "Range" in status.headers) == (503, 308, False)
    assert uploads.put(location, "bytes 0-19/20", b"y" * 20).status_code == 200
    assert bucket.blob("a").download_as_bytes() == b"y" * 20


def test_a_completed_session_returns_the_object_again_and_only_in_its_bucket(
    client: Any, bucket: Any, uploads: Uploads
) -> None:
    client.create_bucket("results")
    location = uploads.begin(json={"contentType": "audio/ogg"})
    elsewhere = uploads.put(location.replace("/uploads/", "/results/"), "bytes 0-3/4", b"evil")
    first = uploads.http.put(location, data=b"once")

    others = uploads.put(location, "bytes 0-3/4", b"once"), uploads.put(location, "bytes */4")

    assert elsewhere.status_code == 404
    assert first.json()["contentType"] == "audio/ogg"
    assert [each.json() for each in others] == [first.json()] * 2
    assert bucket.blob("a").download_as_bytes() == b"once"


@pytest.mark.parametrize("kind", ["multipart", "resumable"])
def test_a_checksum_is_compared_before_anything_is_stored(
    bucket: Any, server: Server, uploads: Uploads, kind: str
) -> None:
    checksum = base64.b64encode(google_crc32c.value(b"sound").to_bytes(4, "big")).decode()
    hashed = {"x-goog-hash": f"crc32c={checksum}", "Content-Type": "audio/wav"}

    def send(content: bytes) -> requests.Response:
        if kind == "resumable":
            return uploads.http.put(uploads.begin(), data=content, headers=hashed)
        part = b'--sep\r\ncontent-type: application/json\r\n\r\n{"crc32c": "%s"}\r\n'
        body = part % checksum.encode() + b"--sep\r\n\r\n%s\r\n--sep--" % content
        return uploads.post(kind, data=body, headers={"Content-Type": MULTIPART})

    response = send(b"other")
    assert response.status_code == 400
    assert "doesn't match calculated CRC32C" in response.json()["error"]["message"]
    assert (bucket.get_blob("a"), server.contents()) == (None, [])
    assert send(b"sound").status_code == 200
    assert bucket.blob("a").download_as_bytes() == b"sound"
