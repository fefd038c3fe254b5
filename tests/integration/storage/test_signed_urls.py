"""Signed URLs are obeyed exactly as signed, by the XML API's object path."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import google_crc32c
import pytest
import requests

from tests.integration.storage.serving import (
    Server,
    credentials_of,
    download_url,
    error_code,
    upload_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SOUND = b"sound" * 20


def altered(url: str, **parameters: str) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | parameters
    return parts._replace(query=urlencode(query)).geturl()


def without(url: str, parameter: str) -> str:
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query) if pair[0] != parameter]
    return parts._replace(query=urlencode(query)).geturl()


def test_a_signed_put_stores_the_object(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("v/voice one.webm")
    url, headers = upload_url(blob, credentials)

    response = http.put(url, data=SOUND, headers=headers)

    assert (response.status_code, response.content) == (200, b"")
    blob.reload()
    assert response.headers["x-goog-generation"] == str(blob.generation)
    assert response.headers["ETag"] == f'"{hashlib.md5(SOUND).hexdigest()}"'  # noqa: S324
    assert (blob.content_type, blob.size) == ("audio/webm", len(SOUND))
    assert blob.download_as_bytes() == SOUND


def test_a_signed_get_answers_the_object_with_its_headers(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.metadata = {"character": "robot"}
    blob.upload_from_string(SOUND, content_type="audio/wav")

    response = http.get(download_url(blob, credentials))

    crc32c = base64.b64encode(google_crc32c.value(SOUND).to_bytes(4, "big")).decode()
    md5 = base64.b64encode(hashlib.md5(SOUND).digest()).decode()  # noqa: S324
    assert response.content == SOUND
    assert response.headers["Content-Type"] == "audio/wav"
    assert response.headers["Content-Length"] == str(len(SOUND))
    assert response.headers["x-goog-generation"] == str(blob.generation)
    assert response.headers["x-goog-metageneration"] == "1"
    assert response.headers["x-goog-stored-content-length"] == str(len(SOUND))
    assert response.headers["x-goog-hash"] == f"crc32c={crc32c},md5={md5}"
    assert response.headers["x-goog-meta-character"] == "robot"
    assert response.headers["Accept-Ranges"] == "bytes"


def test_a_signed_head_answers_the_headers_only(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)

    response = http.head(download_url(blob, credentials, method="HEAD"))

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["Content-Length"] == str(len(SOUND))


def test_a_signed_delete_removes_the_object(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)

    assert http.delete(download_url(blob, credentials, method="DELETE")).status_code == 204
    assert bucket.get_blob("a") is None


def test_a_range_of_a_signed_url_can_be_read(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"0123456789")
    url = download_url(blob, credentials)

    part = http.get(url, headers={"Range": "bytes=3-5"})
    behind = http.get(url, headers={"Range": "bytes=10-"})

    assert (part.status_code, part.content) == (206, b"345")
    assert part.headers["Content-Range"] == "bytes 3-5/10"
    assert (behind.status_code, error_code(behind)) == (416, "InvalidRange")


def test_a_cached_copy_is_confirmed_by_its_entity_tag(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)
    url = download_url(blob, credentials)
    tag = http.get(url).headers["ETag"]

    response = http.get(url, headers={"If-None-Match": tag})

    assert (response.status_code, response.content) == (304, b"")


def test_a_signed_get_is_pinned_to_the_generation_in_it(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"old")
    url = download_url(blob, credentials, generation=blob.generation)
    assert http.get(url).content == b"old"

    bucket.blob("a").upload_from_string(b"new")

    assert error_code(http.get(url)) == "NoSuchKey"


def test_the_signed_response_headers_are_sent(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND, content_type="audio/wav")
    url = download_url(
        blob,
        credentials,
        response_disposition='attachment; filename="robot ü.wav"',
        response_type="audio/x-wav",
    )

    response = http.get(url)
    tampered = http.get(altered(url, **{"response-content-type": "text/html"}))
    added = http.get(download_url(blob, credentials) + "&response-content-type=text/html")

    disposition = response.headers["Content-Disposition"].encode("latin-1").decode()
    assert disposition == 'attachment; filename="robot ü.wav"'
    assert response.headers["Content-Type"] == "audio/x-wav"
    assert error_code(tampered) == "SignatureDoesNotMatch"
    assert error_code(added) == "SignatureDoesNotMatch"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_an_unsigned_request_is_refused(
    bucket: Any, server: Server, http: requests.Session, method: str
) -> None:
    bucket.blob("a").upload_from_string(SOUND)

    response = http.request(method, f"{server.url}/uploads/a", data=SOUND)

    assert response.status_code == 403
    assert method == "HEAD" or error_code(response) == "AccessDenied"
    assert bucket.blob("a").download_as_bytes() == SOUND


def test_a_url_for_one_method_does_not_serve_another(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)
    url = download_url(blob, credentials)

    for method in ("HEAD", "PUT", "DELETE"):
        response = http.request(method, url, data=b"evil")
        assert response.status_code == 403
        assert method == "HEAD" or error_code(response) == "SignatureDoesNotMatch"
    assert bucket.blob("a").download_as_bytes() == SOUND


def test_a_url_for_one_object_does_not_serve_another(
    client: Any, bucket: Any, credentials: Any, http: requests.Session
) -> None:
    client.create_bucket("results").blob("a").upload_from_string(b"secret")
    for name in ("a", "b", "a/b"):
        bucket.blob(name).upload_from_string(b"secret")
    url = download_url(bucket.blob("a"), credentials)

    for path in ("/uploads/b", "/results/a", "/uploads/a/b", "/uploads//a", "/uploads/%61"):
        response = http.send(_raw_request(url, path))
        assert (response.status_code, error_code(response)) == (403, "SignatureDoesNotMatch"), path


def _raw_request(url: str, path: str) -> requests.PreparedRequest:
    prepared = requests.Request("GET", url).prepare()
    prepared.url = urlsplit(url)._replace(path=path).geturl()
    return prepared


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda url: altered(url, **{"X-Goog-Expires": "3600"}), "SignatureDoesNotMatch"),
        (lambda url: altered(url, **{"X-Goog-Signature": "00" * 256}), "SignatureDoesNotMatch"),
        (lambda url: altered(url, **{"X-Goog-Signature": "0g"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Signature": ""}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Expires": "604801"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Expires": "0"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Expires": "-5"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Date": "20300101"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Algorithm": "none"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-Credential": "me"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, **{"X-Goog-SignedHeaders": "date"}), "MalformedSecurityHeader"),
        (lambda url: altered(url, generation="1"), "SignatureDoesNotMatch"),
        (lambda url: without(url, "X-Goog-Expires"), "MalformedSecurityHeader"),
        (lambda url: without(url, "X-Goog-SignedHeaders"), "MalformedSecurityHeader"),
        (lambda url: without(url, "X-Goog-Signature"), "MalformedSecurityHeader"),
        (lambda url: url + "&X-Goog-Expires=300", "MalformedSecurityHeader"),
        (lambda url: url + "&x-goog-signature=00", "MalformedSecurityHeader"),
    ],
)
def test_a_signature_that_was_touched_is_refused(
    bucket: Any, credentials: Any, http: requests.Session, change: Callable[[str], str], code: str
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)
    url = download_url(blob, credentials)

    response = http.get(change(url))

    assert error_code(response) == code
    assert response.status_code in {400, 403}
    assert http.get(url).status_code == 200


def test_a_signature_by_another_key_or_an_unknown_account_is_refused(
    bucket: Any, key: Any, other_key: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)

    forged = http.get(download_url(blob, credentials_of(other_key)))
    unknown = http.get(download_url(blob, credentials_of(key, "nobody@example.com")))

    assert (forged.status_code, error_code(forged)) == (403, "SignatureDoesNotMatch")
    assert (unknown.status_code, error_code(unknown)) == (403, "InvalidSecurity")


def test_a_signature_is_valid_only_for_its_host(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)
    url = download_url(blob, credentials)

    response = http.get(url.replace("127.0.0.1", "localhost"))

    assert error_code(response) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Content-Type", "text/html"),
        ("x-goog-content-length-range", "0,100000"),
        ("x-goog-if-generation-match", "1"),
    ],
)
def test_a_signed_header_may_not_be_altered(
    bucket: Any, credentials: Any, http: requests.Session, name: str, value: str
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)

    response = http.put(url, data=SOUND, headers=headers | {name: value})

    assert (response.status_code, error_code(response)) == (403, "SignatureDoesNotMatch")
    assert bucket.get_blob("a") is None


@pytest.mark.parametrize(
    "name", ["Content-Type", "x-goog-content-length-range", "x-goog-if-generation-match"]
)
def test_a_signed_header_may_not_be_left_out(
    bucket: Any, credentials: Any, http: requests.Session, name: str
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    del headers[name]

    response = http.put(url, data=SOUND, headers=headers)

    assert (response.status_code, error_code(response)) == (400, "MalformedSecurityHeader")
    assert f"<ParameterName>{name.lower()}</ParameterName>" in response.text
    assert bucket.get_blob("a") is None


@pytest.mark.parametrize("name", ["x-goog-meta-owner", "X-Goog-Acl", "x-goog-hash"])
def test_a_goog_header_that_was_not_signed_is_refused(
    bucket: Any, credentials: Any, http: requests.Session, name: str
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)

    response = http.put(url, data=SOUND, headers=headers | {name: "x"})

    assert (response.status_code, error_code(response)) == (400, "MalformedSecurityHeader")
    assert bucket.get_blob("a") is None


def test_signed_metadata_is_stored(bucket: Any, credentials: Any, http: requests.Session) -> None:
    url, headers = upload_url(
        bucket.blob("a"), credentials, headers={"x-goog-meta-character": "robot"}
    )

    assert http.put(url, data=SOUND, headers=headers).status_code == 200
    assert bucket.get_blob("a").metadata == {"character": "robot"}


@pytest.mark.parametrize("size", [1, 1000])
def test_a_size_at_the_edge_of_the_signed_range_is_stored(
    bucket: Any, credentials: Any, http: requests.Session, size: int
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)

    assert http.put(url, data=b"x" * size, headers=headers).status_code == 200
    assert bucket.get_blob("a").size == size


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("size", "code"),
    [(0, "EntityTooSmall"), (1001, "EntityTooLarge"), (5_000_000, "EntityTooLarge")],
)
def test_a_size_outside_the_signed_range_is_refused(
    *,
    bucket: Any,
    server: Server,
    credentials: Any,
    http: requests.Session,
    size: int,
    code: str,
    chunked: bool,
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    data = b"x" * size
    pieces = (data[start : start + 100_000] for start in range(0, size, 100_000))

    response = http.put(url, data=pieces if chunked else data, headers=headers)

    assert (response.status_code, error_code(response)) == (400, code)
    assert bucket.get_blob("a") is None
    assert server.contents() == []


def test_a_signed_put_cannot_be_replayed(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    assert http.put(url, data=SOUND, headers=headers).status_code == 200

    replay = http.put(url, data=b"other", headers=headers)

    assert (replay.status_code, error_code(replay)) == (412, "PreconditionFailed")
    assert bucket.blob("a").download_as_bytes() == SOUND


def test_a_wrong_checksum_stores_nothing(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    wrong = base64.b64encode(b"0" * 16).decode()
    right = base64.b64encode(hashlib.md5(SOUND).digest()).decode()  # noqa: S324
    url, headers = upload_url(bucket.blob("a"), credentials)

    refused = http.put(url, data=SOUND, headers=headers | {"Content-MD5": wrong})
    accepted = http.put(url, data=SOUND, headers=headers | {"Content-MD5": right})

    assert (refused.status_code, error_code(refused)) == (400, "BadDigest")
    assert accepted.status_code == 200


def test_a_signed_payload_hash_binds_the_content(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    payload = {"x-goog-content-sha256": hashlib.sha256(SOUND).hexdigest()}
    url, headers = upload_url(bucket.blob("a"), credentials, headers=payload)

    refused = http.put(url, data=SOUND + b"!", headers=headers)
    accepted = http.put(url, data=SOUND, headers=headers)

    assert (refused.status_code, error_code(refused)) == (400, "BadDigest")
    assert accepted.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"x-goog-acl": "public-read"}, 501, "NotImplemented"),
        ({"x-goog-copy-source": "/results/secret"}, 501, "NotImplemented"),
        ({"x-goog-content-length-range": "1-1000"}, 400, "InvalidArgument"),
        ({"x-goog-if-generation-match": "none"}, 400, "InvalidArgument"),
        ({"x-goog-hash": "sha1=abc"}, 400, "InvalidArgument"),
    ],
)
def test_a_signed_header_that_makes_no_sense_here_is_refused_by_name(
    *,
    bucket: Any,
    credentials: Any,
    http: requests.Session,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    url, all_headers = upload_url(bucket.blob("a"), credentials, headers=headers)

    response = http.put(url, data=SOUND, headers=all_headers)

    assert (response.status_code, error_code(response)) == (status, code)
    assert next(iter(headers)) in response.text
    assert bucket.get_blob("a") is None


def test_a_response_override_cannot_smuggle_a_header(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(SOUND)

    response = http.get(download_url(blob, credentials, response_type="a\r\nX-Evil: 1"))

    assert (response.status_code, error_code(response)) == (400, "InvalidArgument")
    assert "X-Evil" not in response.headers


@pytest.mark.parametrize("name", ["x" * 1025, ".well-known/acme-challenge/a", "a\rb"])
def test_a_signed_upload_to_a_name_that_is_not_allowed_is_refused(
    bucket: Any, server: Server, credentials: Any, http: requests.Session, name: str
) -> None:
    url, headers = upload_url(bucket.blob(name), credentials)

    response = http.put(url, data=SOUND, headers=headers)

    assert (response.status_code, error_code(response)) == (400, "InvalidArgument")
    assert server.contents() == []


def test_an_upload_whose_client_goes_away_stores_nothing(
    bucket: Any, server: Server, credentials: Any
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    parts = urlsplit(url)
    head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(f"{head}Content-Length: 500\r\n\r\n".encode() + b"x" * 499)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass

    assert bucket.get_blob("a") is None
    assert server.contents() == []


def test_a_missing_object_is_an_error_in_xml(
    client: Any, bucket: Any, credentials: Any, http: requests.Session
) -> None:
    missing = http.get(download_url(bucket.blob("a"), credentials))
    nowhere = http.get(download_url(client.bucket("nowhere").blob("a"), credentials))

    assert (missing.status_code, error_code(missing)) == (404, "NoSuchKey")
    assert "No such object: uploads/a" in missing.text
    assert (nowhere.status_code, error_code(nowhere)) == (404, "NoSuchBucket")


@pytest.mark.usefixtures("bucket")
def test_another_method_is_not_allowed(server: Server, http: requests.Session) -> None:
    response = http.patch(f"{server.url}/uploads/a")

    assert (response.status_code, error_code(response)) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "a/../b",
        "./a",
        "a//b",
        "/a",
        "a%2Fb",
        "a b+c",
        "ключ/🎤",
        "a?b#c&d=e",
        "a;b,c'd\"e",
        "x" * 1024,
        "~-_.",
        "NUL\0name",
        "o/compose",
        "a/rewriteTo/b/uploads/o/c",
    ],
)
def test_any_allowed_name_works_on_both_apis_and_never_becomes_a_path(
    bucket: Any, server: Server, credentials: Any, name: str
) -> None:
    blob = bucket.blob(name)
    url, headers = upload_url(blob, credentials)
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}"
    # The plain client of the standard library does not resolve dots in the path.
    connection = http.client.HTTPConnection(server.host)
    connection.request("PUT", target, SOUND, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()

    assert answer.status == 200
    assert [found.name for found in bucket.list_blobs()] == [name]
    assert bucket.get_blob(name).download_as_bytes() == SOUND
    (stored,) = server.contents()
    assert re.fullmatch("[0-9a-f]{32}", stored.name)
    assert stored.parent.parent == server.root
    blob.delete()
