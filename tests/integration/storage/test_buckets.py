"""Buckets, and who may use the JSON API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions

if TYPE_CHECKING:
    import requests

    from tests.integration.storage.serving import Server


def test_a_bucket_keeps_what_its_owner_sets_and_is_deleted_when_it_is_empty(client: Any) -> None:
    bucket = client.bucket("uploads")
    bucket.cors = [{"origin": ["*"], "method": ["GET"]}]
    bucket.labels = {"a": "1", "b": "2"}
    client.create_bucket(bucket)

    found = client.get_bucket("uploads")
    assert found.cors == [{"origin": ["*"], "method": ["GET"]}]
    assert found.labels == {"a": "1", "b": "2"}
    assert found.iam_configuration.uniform_bucket_level_access_enabled
    with pytest.raises(exceptions.Conflict):
        client.create_bucket("uploads")
    bucket.blob("a").upload_from_string(b"x")
    with pytest.raises(exceptions.Conflict):
        bucket.delete()
    bucket.delete(force=True)
    assert client.lookup_bucket("uploads") is None
    with pytest.raises(exceptions.NotFound):
        bucket.delete()


def test_buckets_are_listed_by_name_and_prefix(client: Any) -> None:
    for name in ("results", "uploads-b", "uploads-a"):
        client.create_bucket(name)

    def listed(**options: Any) -> list[str]:
        return [bucket.name for bucket in client.list_buckets(**options)]

    assert listed() == ["results", "uploads-a", "uploads-b"]
    assert listed(prefix="up", page_size=1) == ["uploads-a", "uploads-b"]
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
        ("POST", "/upload/storage/v1/b/uploads/o?uploadType=media&name=a"),
        ("GET", "/download/storage/v1/b/uploads/o/a?alt=media"),
    ):
        response = http.request(
            method, f"{server.url}{path}", headers=headers, json={"name": "evil"}
        )
        assert response.status_code == 403
        assert b"secret" not in response.content
        assert not any(name.lower().startswith("access-control") for name in response.headers)
