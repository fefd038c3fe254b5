"""Signed URLs are obeyed as signed, by the XML API's object path, and from other origins."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import google_crc32c
import pytest

from shared.google.signatures import HmacSigner
from tests.integration.storage.serving import (
    ACCESS_ID,
    SECRET,
    SITE,
    SOUND,
    UPLOADER,
    Server,
    SignedAddressUser,
    altered,
    credentials_of,
    error_code,
    send_part,
    upload_url,
)

if TYPE_CHECKING:
    import requests

MD5 = hashlib.md5(SOUND).digest()  # noqa: S324 - Cloud Storage's own checksum


def test_a_signed_put_stores_the_object(visitor: SignedAddressUser) -> None:
    metadata = {"x-goog-meta-character": "robot"}

    response = visitor.put(name="v/voice one.webm", signed=metadata)

    blob = visitor.bucket.get_blob("v/voice one.webm")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["x-goog-generation"] == str(blob.generation)
    assert response.headers["ETag"] == f'"{MD5.hex()}"'
    assert (blob.content_type, blob.size) == ("audio/webm", len(SOUND))
    assert (blob.metadata, blob.download_as_bytes()) == ({"character": "robot"}, SOUND)


def test_signed_requests_read_the_object(visitor: SignedAddressUser) -> None:
    blob = visitor.bucket.blob("a")
    blob.metadata = {"character": "robot"}
    blob.upload_from_string(SOUND, content_type="audio/wav")
    url = visitor.url()

    response = visitor.get(url)
    head = visitor.http.head(visitor.url(method="HEAD"))
    cached = visitor.get(url, **{"If-None-Match": response.headers["ETag"]})
    part, behind = (visitor.get(url, Range=each) for each in ("bytes=3-5", "bytes=100-"))

    crc32c = base64.b64encode(google_crc32c.value(SOUND).to_bytes(4, "big")).decode()
    expected = {
        "Content-Type": "audio/wav",
        "Content-Length": str(len(SOUND)),
        "x-goog-generation": str(blob.generation),
        "x-goog-metageneration": "1",
        "x-goog-stored-content-length": str(len(SOUND)),
        "x-goog-hash": f"crc32c={crc32c},md5={base64.b64encode(MD5).decode()}",
        "x-goog-meta-character": "robot",
        "Accept-Ranges": "bytes",
    }
    assert {name: response.headers[name] for name in expected} == expected
    assert response.content == SOUND
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(len(SOUND))
    assert (cached.status_code, cached.content) == (304, b"")
    assert (part.status_code, part.content) == (206, SOUND[3:6])
    assert (behind.status_code, error_code(behind)) == (416, "InvalidRange")


def test_a_signed_get_is_pinned_to_the_generation_in_it(visitor: SignedAddressUser) -> None:
    blob = visitor.bucket.blob("a")
    blob.upload_from_string(b"old")
    url = visitor.url(generation=blob.generation)
    assert visitor.get(url).content == b"old"

    visitor.bucket.blob("a").upload_from_string(b"new")

    assert error_code(visitor.get(url)) == "NoSuchKey"


def test_the_signed_response_headers_are_sent(visitor: SignedAddressUser) -> None:
    disposition = 'attachment; filename="robot ü.wav"'
    plain = visitor.url(content=SOUND)
    url = visitor.url(response_disposition=disposition, response_type="audio/x-wav")

    response = visitor.get(url)
    others = (
        altered(url, **{"response-content-type": "text/html"}),
        f"{plain}&response-content-type=a",
    )

    assert response.headers["Content-Disposition"].encode("latin-1").decode() == disposition
    assert response.headers["Content-Type"] == "audio/x-wav"
    assert [error_code(visitor.get(each)) for each in others] == ["SignatureDoesNotMatch"] * 2
    smuggled = visitor.get(visitor.url(response_type="a\r\nX-Evil: 1"))
    assert (error_code(smuggled), "X-Evil" in smuggled.headers) == ("InvalidArgument", False)


def test_a_request_without_its_own_signature_is_refused(
    visitor: SignedAddressUser, server: Server
) -> None:
    visitor.url(content=SOUND)
    for method in ("GET", "HEAD", "PUT"):
        signed = visitor.url(method="PUT" if method == "GET" else "GET")
        for url, code in (
            (f"{server.url}/uploads/a", "AccessDenied"),
            (signed, "SignatureDoesNotMatch"),
        ):
            response = visitor.http.request(method, url, data=b"evil" if method == "PUT" else None)
            assert response.status_code == 403
            assert method == "HEAD" or error_code(response) == code
    assert visitor.bucket.blob("a").download_as_bytes() == SOUND


def test_another_key_or_an_unknown_account_signs_nothing(
    visitor: SignedAddressUser, key: Any, other_key: Any
) -> None:
    visitor.url(content=SOUND)
    for signer, code in (
        (credentials_of(other_key), "SignatureDoesNotMatch"),
        (credentials_of(key, "nobody@example.com"), "InvalidSecurity"),
    ):
        refused = visitor.get(replace(visitor, credentials=signer).url())
        assert (refused.status_code, error_code(refused)) == (403, code)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"secret": "another secret of forty characters..."}, "SignatureDoesNotMatch"),
        ({"access_id": "GOOG1NOBODYNOBODYNOBODYNOBODY"}, "InvalidSecurity"),
        ({"access_id": UPLOADER}, "SignatureDoesNotMatch"),
    ],
)
def test_an_hmac_key_signs_what_is_its_own(
    visitor: SignedAddressUser, server: Server, changes: dict[str, Any], code: str | None
) -> None:
    signer = replace(HmacSigner(ACCESS_ID, SECRET, server.clock), **changes)
    visitor.url(content=SOUND)

    url = signer.sign_url(visitor.bucket.blob("a"), "GET", server.clock() + timedelta(minutes=5))

    response = visitor.get(url)
    assert response.content == SOUND if code is None else error_code(response) == code
    server.clock.ahead += timedelta(minutes=6)
    assert code is not None or error_code(visitor.get(url)) == "ExpiredToken"


@pytest.mark.parametrize("chunked", [False, True])
def test_the_signed_range_of_sizes_is_held(
    visitor: SignedAddressUser, server: Server, *, chunked: bool
) -> None:
    for size, code in (
        (0, "EntityTooSmall"),
        (1001, "EntityTooLarge"),
        (5_000_000, "EntityTooLarge"),
    ):
        data = b"x" * size
        pieces = (data[start : start + 100_000] for start in range(0, size, 100_000))
        response = visitor.put(pieces if chunked else data)
        assert (response.status_code, error_code(response)) == (400, code)
        assert (visitor.bucket.get_blob("a"), server.contents()) == (None, [])
    for size in (1, 1000):
        assert visitor.put(iter([b"x" * size]) if chunked else b"x" * size, str(size)).ok


def test_a_wrong_checksum_stores_nothing(visitor: SignedAddressUser) -> None:
    refused = visitor.put(sent={"Content-MD5": base64.b64encode(b"0" * 16).decode()})

    assert (refused.status_code, error_code(refused)) == (400, "BadDigest")
    right = base64.b64encode(MD5).decode()
    assert visitor.put(sent={"Content-MD5": right}).status_code == 200


def test_an_upload_whose_client_goes_away_stores_nothing(
    visitor: SignedAddressUser, server: Server
) -> None:
    url, headers = upload_url(visitor.bucket.blob("a"), visitor.credentials)

    send_part("PUT", url, headers, 500, b"x" * 499)

    assert (visitor.bucket.get_blob("a"), server.contents()) == (None, [])


def test_an_error_is_told_in_xml(client: Any, visitor: SignedAddressUser, server: Server) -> None:
    missing = visitor.get(visitor.url())
    elsewhere = replace(visitor, bucket=client.bucket("nowhere"))
    nowhere = visitor.get(elsewhere.url())
    patched = visitor.http.patch(f"{server.url}/uploads/a")

    assert (missing.status_code, error_code(missing)) == (404, "NoSuchKey")
    assert "No such object: uploads/a" in missing.text
    assert (nowhere.status_code, error_code(nowhere)) == (404, "NoSuchBucket")
    assert (patched.status_code, error_code(patched)) == (405, "MethodNotAllowed")


NAMES = (
    "../../etc/passwd",
    "a/../b",
    "a//b",
    "/a",
    "a%2Fb",
    "ключ/🎤 b+c",
    "a?b#c&d=e;f,c'd\"e",
    "x" * 1024,
    "NUL\0name",
    "a/rewriteTo/b/uploads/o/c",
)


def test_any_allowed_name_works_on_both_apis_and_never_becomes_a_path(
    visitor: SignedAddressUser, server: Server
) -> None:
    for name in NAMES:
        url, headers = upload_url(visitor.bucket.blob(name), visitor.credentials)
        parts = urlsplit(url)
        # The plain client of the standard library does not resolve dots in the path.
        with closing(http.client.HTTPConnection(server.host)) as connection:
            connection.request("PUT", f"{parts.path}?{parts.query}", SOUND, headers)
            assert connection.getresponse().status == 200

        assert [found.name for found in visitor.bucket.list_blobs()] == [name]
        assert visitor.bucket.get_blob(name).download_as_bytes() == SOUND
        (stored,) = server.contents()
        assert re.fullmatch("[0-9a-f]{32}", stored.name)
        assert stored.parent.parent == server.root
        visitor.bucket.blob(name).delete()


WANTED = "content-type,x-goog-content-length-range,x-goog-if-generation-match"


def preflight(
    http: requests.Session, url: str, origin: str = SITE, method: str = "PUT", headers: str = WANTED
) -> requests.Response:
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    return http.options(url, headers=asked | {"Access-Control-Request-Headers": headers})


def cors_headers(response: requests.Response) -> dict[str, str]:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return {name: headers[name] for name in headers if name.startswith("access-control")}


def test_a_preflight_allows_what_the_bucket_allows_and_nothing_else(
    visitor: SignedAddressUser,
) -> None:
    url = visitor.url(method="PUT")
    response = preflight(visitor.http, url)

    assert response.status_code == 200
    assert cors_headers(response) == {
        "access-control-allow-origin": SITE,
        "access-control-allow-methods": "PUT, GET",
        "access-control-allow-headers": WANTED.replace(",", ", "),
        "access-control-max-age": "600",
    }
    assert response.headers["Vary"] == "Origin"
    for question in (
        {"origin": "https://site.example.evil.example"},
        {"origin": "null"},
        {"method": "DELETE"},
        {"headers": f"{WANTED},authorization"},
    ):
        other = preflight(visitor.http, url, **question)
        assert (other.status_code, cors_headers(other)) == (200, {}), question


def test_answers_and_errors_may_be_read_by_the_site_alone(visitor: SignedAddressUser) -> None:
    answers = (
        visitor.put(sent={"Origin": SITE}),
        visitor.get(visitor.url(), Origin=SITE),
        visitor.put(b"x" * 1001, sent={"Origin": SITE}),
        visitor.get(visitor.url().partition("?")[0], Origin=SITE),
        visitor.get(visitor.url("b"), Origin=SITE),
    )
    assert [each.status_code for each in answers] == [200, 200, 400, 403, 404]
    assert {each.headers["Access-Control-Allow-Origin"] for each in answers} == {SITE}
    exposed = answers[0].headers["Access-Control-Expose-Headers"].split(", ")
    assert "x-goog-if-generation-match" in exposed
    assert cors_headers(visitor.get(visitor.url(), Origin="https://evil.example")) == {}
