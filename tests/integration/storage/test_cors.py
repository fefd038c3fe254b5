"""Cross-origin requests, as a browser makes them to signed URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.storage.serving import SITE, Server, download_url, error_code, upload_url

if TYPE_CHECKING:
    import requests

WANTED = "content-type,x-goog-content-length-range,x-goog-if-generation-match"


def preflight(
    http: requests.Session, url: str, origin: str = SITE, method: str = "PUT", headers: str = WANTED
) -> requests.Response:
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    if headers:
        asked["Access-Control-Request-Headers"] = headers
    return http.options(url, headers=asked)


def cors_headers(response: requests.Response) -> dict[str, str]:
    return {
        name.lower(): value
        for name, value in response.headers.items()
        if name.lower().startswith("access-control")
    }


def test_a_preflight_allows_what_the_bucket_allows(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    url, _ = upload_url(bucket.blob("a"), credentials)

    response = preflight(http, url)

    assert response.status_code == 200
    assert cors_headers(response) == {
        "access-control-allow-origin": SITE,
        "access-control-allow-methods": "PUT, GET",
        "access-control-allow-headers": WANTED.replace(",", ", "),
        "access-control-max-age": "600",
    }
    assert response.headers["Vary"] == "Origin"


@pytest.mark.parametrize(
    "question",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://site.example.evil.example"},
        {"origin": "null"},
        {"method": "DELETE"},
        {"headers": f"{WANTED},authorization"},
    ],
)
@pytest.mark.usefixtures("bucket")
def test_a_preflight_for_anything_else_allows_nothing(
    server: Server, http: requests.Session, question: dict[str, str]
) -> None:
    response = preflight(http, f"{server.url}/uploads/a", **question)

    assert (response.status_code, cors_headers(response)) == (200, {})


def test_a_bucket_without_configuration_allows_nothing(
    client: Any, server: Server, credentials: Any, http: requests.Session
) -> None:
    blob = client.create_bucket("plain").blob("a")
    blob.upload_from_string(b"sound")

    answer = http.get(download_url(blob, credentials), headers={"Origin": SITE})

    assert cors_headers(preflight(http, f"{server.url}/plain/a")) == {}
    assert (answer.status_code, cors_headers(answer)) == (200, {})


def test_a_preflight_for_a_missing_bucket_is_not_found(
    server: Server, http: requests.Session
) -> None:
    response = preflight(http, f"{server.url}/nowhere/a")

    assert (response.status_code, error_code(response)) == (404, "NoSuchBucket")


def test_a_cross_origin_upload_and_download_may_be_read_by_the_site(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    url, headers = upload_url(blob, credentials)

    stored = http.put(url, data=b"sound", headers=headers | {"Origin": SITE})
    read = http.get(download_url(blob, credentials), headers={"Origin": SITE})

    for response in (stored, read):
        assert response.status_code == 200
        assert response.headers["Access-Control-Allow-Origin"] == SITE
        exposed = response.headers["Access-Control-Expose-Headers"].split(", ")
        assert "x-goog-if-generation-match" in exposed


def test_errors_may_be_read_by_the_site_too(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    headers |= {"Origin": SITE}

    too_large = http.put(url, data=b"x" * 1001, headers=headers)
    unsigned = http.put(url.partition("?")[0], data=b"x", headers={"Origin": SITE})
    missing = http.get(download_url(bucket.blob("b"), credentials), headers={"Origin": SITE})

    for response, code in (
        (too_large, "EntityTooLarge"),
        (unsigned, "AccessDenied"),
        (missing, "NoSuchKey"),
    ):
        assert error_code(response) == code
        assert response.headers["Access-Control-Allow-Origin"] == SITE


def test_another_origin_may_not_read_the_answer(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"sound")

    response = http.get(download_url(blob, credentials), headers={"Origin": "https://evil.example"})

    assert cors_headers(response) == {}


def test_a_star_allows_every_origin_method_and_header(
    client: Any, server: Server, http: requests.Session
) -> None:
    bucket = client.bucket("open")
    bucket.cors = [{"origin": ["*"], "method": ["*"], "responseHeader": ["*"]}]
    client.create_bucket(bucket)

    response = preflight(http, f"{server.url}/open/a", "https://any.example", headers="x-any")

    assert cors_headers(response) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "*",
        "access-control-allow-headers": "x-any",
    }
