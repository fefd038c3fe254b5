"""Multipart, media and resumable uploads."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import google_crc32c
import pytest
from google.api_core import exceptions

if TYPE_CHECKING:
    import requests

    from tests.integration.storage.serving import Server

QUANTUM = 256 * 1024


class Pipe(io.RawIOBase):
    """A stream of unknown length that cannot be rewound."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(size)

    def tell(self) -> int:
        return self._data.tell()


def crc32c_of(data: bytes) -> str:
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


def session_for(
    server: Server, http: requests.Session, name: str = "a", **options: Any
) -> tuple[str, requests.Response]:
    options.setdefault("json", {})
    params = {"uploadType": "resumable", "name": name} | options.pop("params", {})
    response = http.post(f"{server.url}/upload/storage/v1/b/uploads/o", params=params, **options)
    return response.headers.get("Location", ""), response


def put(
    http: requests.Session, location: str, content_range: str, data: bytes = b"", **headers: str
) -> requests.Response:
    return http.put(location, data=data, headers={"Content-Range": content_range} | headers)


def send_half(location: str, content_range: str, length: int, data: bytes) -> None:
    """Announce `length` bytes, send `data`, and go away."""
    parts = urlsplit(location)
    head = (
        f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Range: {content_range}\r\nContent-Length: {length}\r\n\r\n"
    )
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(head.encode() + data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass


@pytest.mark.parametrize("size", [0, 1, 5_000_000, 8 * 1024 * 1024])
def test_a_file_of_known_size_is_uploaded_in_one_request(bucket: Any, size: int) -> None:
    data = os.urandom(size)
    blob = bucket.blob("a")

    blob.upload_from_file(io.BytesIO(data), size=size, checksum="md5", content_type="audio/wav")

    assert blob.size == size
    assert blob.download_as_bytes(checksum="crc32c") == data


def test_content_that_looks_like_a_boundary_is_content(bucket: Any) -> None:
    data = b"\r\n--\r\n--==\r\n\r\n--===============0123456789==--\r\n" * 50_000

    bucket.blob("a").upload_from_string(data)

    assert bucket.blob("a").download_as_bytes() == data


def test_a_file_beyond_eight_megabytes_is_uploaded_in_chunks(bucket: Any) -> None:
    data = os.urandom(9_000_001)
    blob = bucket.blob("big")
    blob.chunk_size = 4 * QUANTUM
    blob.metadata = {"k": "v"}

    blob.upload_from_file(io.BytesIO(data), size=len(data), content_type="audio/wav")

    found = bucket.get_blob("big")
    assert hashlib.sha256(found.download_as_bytes()).digest() == hashlib.sha256(data).digest()
    assert (found.content_type, found.metadata) == ("audio/wav", {"k": "v"})


@pytest.mark.parametrize("size", [0, 10, QUANTUM, QUANTUM + 1, 3 * QUANTUM])
def test_a_stream_of_unknown_size_is_uploaded(bucket: Any, size: int) -> None:
    data = os.urandom(size)
    blob = bucket.blob("streamed", chunk_size=QUANTUM)

    blob.upload_from_file(Pipe(data), checksum="crc32c")

    assert bucket.blob("streamed").download_as_bytes() == data


def test_writing_like_a_file_works(bucket: Any) -> None:
    data = os.urandom(QUANTUM + 77)

    with bucket.blob("a").open("wb", chunk_size=QUANTUM) as file:
        file.write(data[:1000])
        file.write(data[1000:])

    with bucket.blob("a").open("rb") as file:
        assert file.read() == data


def test_an_upload_in_chunks_obeys_its_preconditions(bucket: Any) -> None:
    bucket.blob("a").upload_from_string(b"first")
    blob = bucket.blob("a", chunk_size=QUANTUM)

    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_file(Pipe(b"second"), if_generation_match=0)
    assert bucket.blob("a").download_as_bytes() == b"first"


def test_somebody_faster_wins_over_an_open_session(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    location, _ = session_for(server, http, params={"ifGenerationMatch": "0"})
    bucket.blob("a").upload_from_string(b"faster")

    response = put(http, location, "bytes 0-5/6", b"slower")

    assert response.status_code == 412
    assert bucket.blob("a").download_as_bytes() == b"faster"
    assert len(server.contents()) == 1
    assert put(http, location, "bytes */*").status_code == 404


def test_an_interrupted_upload_goes_on_where_it_stopped(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    data = os.urandom(3 * QUANTUM + 5)
    total = len(data)
    location, _ = session_for(server, http)
    send_half(location, f"bytes 0-{total - 1}/{total}", total, data[: 2 * QUANTUM + 1000])

    status = put(http, location, f"bytes */{total}")
    assert status.status_code == 308
    assert status.headers["Range"] == f"bytes=0-{2 * QUANTUM - 1}"
    assert bucket.get_blob("a") is None
    rest = put(http, location, f"bytes {2 * QUANTUM}-{total - 1}/{total}", data[2 * QUANTUM :])

    assert rest.status_code == 200
    assert rest.json()["size"] == str(total)
    assert bucket.blob("a").download_as_bytes(checksum="md5") == data


def test_bytes_that_are_there_already_are_skipped(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    data = os.urandom(2 * QUANTUM)
    location, _ = session_for(server, http)
    put(http, location, f"bytes 0-{QUANTUM - 1}/*", data[:QUANTUM])

    again = put(http, location, f"bytes 0-{2 * QUANTUM - 1}/{2 * QUANTUM}", data)

    assert again.status_code == 200
    assert bucket.blob("a").download_as_bytes() == data


@pytest.mark.usefixtures("bucket")
def test_only_whole_quanta_of_an_intermediate_piece_are_kept(
    server: Server, http: requests.Session
) -> None:
    location, _ = session_for(server, http)

    response = put(http, location, f"bytes 0-{QUANTUM + 99}/*", b"x" * (QUANTUM + 100))

    assert response.headers["Range"] == f"bytes=0-{QUANTUM - 1}"


@pytest.mark.usefixtures("bucket")
def test_a_gap_is_refused_so_that_the_client_asks_where_to_go_on(
    server: Server, http: requests.Session
) -> None:
    location, _ = session_for(server, http)

    assert put(http, location, "bytes 10-19/20", b"x" * 10).status_code == 503
    status = put(http, location, "bytes */*")
    assert (status.status_code, "Range" in status.headers) == (308, False)


@pytest.mark.parametrize(
    ("content_range", "size"),
    [
        ("bytes 0-9/5", 10),
        (f"bytes 0-{2**63 - 1}/*", 10),
        ("bytes 5-2/10", 3),
        ("bytes 0-9/20", 12),
        ("bytes 0-9/20", 8),
        ("bytes 0-9/30", 10),
        ("chunks 0-9/10", 10),
        ("bytes */x", 0),
    ],
)
def test_a_content_range_that_contradicts_itself_or_the_session_is_refused(
    bucket: Any, server: Server, http: requests.Session, content_range: str, size: int
) -> None:
    location, _ = session_for(server, http, headers={"X-Upload-Content-Length": "20"})

    assert put(http, location, content_range, b"x" * size).status_code == 400
    assert put(http, location, "bytes 0-19/20", b"y" * 20).status_code == 200
    assert bucket.blob("a").download_as_bytes() == b"y" * 20


@pytest.mark.usefixtures("bucket")
def test_a_completed_session_answers_the_object_again(
    server: Server, http: requests.Session
) -> None:
    location, _ = session_for(server, http)
    first = put(http, location, "bytes 0-3/4", b"once")

    again = put(http, location, "bytes 0-3/4", b"once")
    status = put(http, location, "bytes */4")

    assert first.status_code == again.status_code == status.status_code == 200
    assert first.json() == again.json() == status.json()


def test_a_session_without_content_range_takes_the_whole_body(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    location, _ = session_for(server, http, json={"contentType": "audio/ogg"})

    assert http.put(location, data=b"whole").json()["contentType"] == "audio/ogg"
    assert bucket.blob("a").download_as_bytes() == b"whole"


@pytest.mark.usefixtures("bucket")
def test_a_session_belongs_to_its_bucket(
    client: Any, server: Server, http: requests.Session
) -> None:
    client.create_bucket("results")
    location, _ = session_for(server, http)

    response = put(http, location.replace("/uploads/", "/results/"), "bytes 0-3/4", b"evil")

    assert response.status_code == 404


def test_an_upload_session_with_impossible_conditions_is_refused(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    bucket.blob("a").upload_from_string(b"x")

    _, occupied = session_for(server, http, params={"ifGenerationMatch": "0"})
    _, nameless = session_for(server, http, name="")
    _, endless = session_for(server, http, headers={"X-Upload-Content-Length": "many"})

    assert (occupied.status_code, nameless.status_code, endless.status_code) == (412, 400, 400)
    assert len(server.contents()) == 1


@pytest.mark.parametrize("upload_type", ["media", "multipart", "resumable"])
def test_a_wrong_checksum_is_refused_and_stores_nothing(
    bucket: Any, server: Server, http: requests.Session, upload_type: str
) -> None:
    wrong = crc32c_of(b"other")
    url = f"{server.url}/upload/storage/v1/b/uploads/o?name=a&uploadType={upload_type}"
    if upload_type == "media":
        response = http.post(url, data=b"sound", headers={"x-goog-hash": f"crc32c={wrong}"})
    elif upload_type == "multipart":
        body = (
            b'--sep\r\ncontent-type: application/json\r\n\r\n{"crc32c": "%s"}\r\n'
            b"--sep\r\ncontent-type: audio/wav\r\n\r\nsound\r\n--sep--"
        ) % wrong.encode()
        response = http.post(
            url, data=body, headers={"Content-Type": 'multipart/related; boundary="sep"'}
        )
    else:
        location, _ = session_for(server, http)
        response = put(
            http, location, "bytes 0-4/5", b"sound", **{"x-goog-hash": f"crc32c={wrong}"}
        )

    assert response.status_code == 400
    assert "doesn't match calculated CRC32C" in response.json()["error"]["message"]
    assert bucket.get_blob("a") is None
    assert server.contents() == []


def test_a_media_upload_with_the_right_checksum_is_stored(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    response = http.post(
        f"{server.url}/upload/storage/v1/b/uploads/o?name=a%2Fb&uploadType=media",
        data=b"sound",
        headers={"Content-Type": "audio/wav", "x-goog-hash": f"crc32c={crc32c_of(b'sound')}"},
    )

    assert (response.json()["name"], response.json()["contentType"]) == ("a/b", "audio/wav")
    assert bucket.blob("a/b").download_as_bytes() == b"sound"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/related", b""),
        ("application/json", b"{}"),
        ("multipart/related; boundary=sep", b"nonsense"),
        ("multipart/related; boundary=sep", b"--sep\r\n\r\n{}\r\n--sep--"),
        ("multipart/related; boundary=sep", b"--sep\r\n\r\n{}\r\n--sep\r\n\r\ncut of"),
        ("multipart/related; boundary=sep", b"--sep\r\n\r\n{\r\n--sep\r\n\r\nx\r\n--sep--"),
        ("multipart/related; boundary=sep", b"--sep\r\n\r\n[]\r\n--sep\r\n\r\nx\r\n--sep--"),
    ],
)
def test_a_malformed_multipart_body_is_refused(
    bucket: Any, server: Server, http: requests.Session, content_type: str, body: bytes
) -> None:
    response = http.post(
        f"{server.url}/upload/storage/v1/b/uploads/o?name=a&uploadType=multipart",
        data=body,
        headers={"Content-Type": content_type},
    )

    assert response.status_code == 400
    assert bucket.get_blob("a") is None
    assert server.contents() == []


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "x" * 1025, "ü" * 513])
def test_a_name_that_is_not_allowed_is_refused(
    bucket: Any, server: Server, http: requests.Session, name: str
) -> None:
    response = http.post(
        f"{server.url}/upload/storage/v1/b/uploads/o",
        params={"uploadType": "media", "name": name},
        data=b"x",
    )

    assert response.status_code == 400
    assert server.contents() == []
    assert list(bucket.list_blobs()) == []


@pytest.mark.usefixtures("bucket")
def test_a_name_that_is_no_utf_8_is_refused(server: Server, http: requests.Session) -> None:
    assert http.get(f"{server.url}/storage/v1/b/uploads/o/%ff").status_code == 400
