"""Cross-origin requests, as a browser makes them to signed URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.storage.serving import SITE, SignedAddressUser

if TYPE_CHECKING:
    import requests

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
