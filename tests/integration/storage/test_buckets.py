"""Buckets, and who may use the JSON API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions

if TYPE_CHECKING:
    import requests

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
