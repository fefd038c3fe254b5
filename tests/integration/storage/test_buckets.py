"""Buckets, and who may use the JSON API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions

if TYPE_CHECKING:
    import requests

    from tests.integration.storage.serving import Server


def test_a_bucket_keeps_what_its_owner_sets(client: Any) -> None:
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


def test_buckets_are_listed_by_name_and_prefix(client: Any) -> None:
    for name in ("results", "uploads-b", "uploads-a"):
        client.create_bucket(name)

    assert [bucket.name for bucket in client.list_buckets()] == [
        "results",
        "uploads-a",
        "uploads-b",
    ]
    assert [bucket.name for bucket in client.list_buckets(prefix="up", page_size=1)] == [
        "uploads-a",
        "uploads-b",
    ]
    assert list(client.list_buckets(project="other-project")) == []


def test_only_an_empty_bucket_is_deleted(client: Any) -> None:
    bucket = client.create_bucket("uploads")
    bucket.blob("a").upload_from_string(b"x")

    with pytest.raises(exceptions.Conflict):
        bucket.delete()
    bucket.delete(force=True)
    assert client.lookup_bucket("uploads") is None
    with pytest.raises(exceptions.NotFound):
        bucket.delete()


@pytest.mark.parametrize("name", ["ab", "Upper", "-a-", "a..b", "storage", "x" * 64, "../x", ""])
def test_a_bucket_name_that_is_not_allowed_is_refused(
    server: Server, http: requests.Session, name: str
) -> None:
    response = http.post(f"{server.url}/storage/v1/b?project=p", json={"name": name})

    assert response.status_code == 400
    assert "bucket name" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"versioning": {"enabled": True}}, 501),
        ({"retentionPolicy": {"retentionPeriod": "60"}}, 501),
        ({"billing": {"requesterPays": True}}, 501),
        ({"cors": {}}, 400),
        ({"cors": [1]}, 400),
        ({"cors": [{"origin": "*"}]}, 400),
        ({"cors": [{"method": [1]}]}, 400),
        ({"cors": [{"maxAgeSeconds": "x"}]}, 400),
    ],
)
def test_a_malformed_or_unsupported_field_of_a_bucket_is_refused(
    server: Server, http: requests.Session, fields: dict[str, Any], status: int
) -> None:
    response = http.post(f"{server.url}/storage/v1/b?project=p", json={"name": "abc"} | fields)

    assert response.status_code == status
    assert next(iter(fields)) in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8080"},
        {"Host": "127.0.0.1.evil.example"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/storage/v1/b?project=p"),
        ("GET", "/storage/v1/b?project=p"),
        ("POST", "/upload/storage/v1/b/uploads/o?uploadType=media&name=a"),
        ("GET", "/download/storage/v1/b/uploads/o/a?alt=media"),
    ],
)
def test_a_web_page_cannot_drive_the_json_api(
    *,
    bucket: Any,
    server: Server,
    http: requests.Session,
    headers: dict[str, str],
    method: str,
    path: str,
) -> None:
    bucket.blob("a").upload_from_string(b"secret")
    for host in ("localhost", "LOCALHOST:80", "[::1]:1", "[::1]"):
        assert http.get(f"{server.url}/storage/v1/b?project=p", headers={"Host": host}).ok

    response = http.request(method, f"{server.url}{path}", headers=headers, json={"name": "evil"})

    assert response.status_code == 403
    assert b"secret" not in response.content
    assert not any(name.startswith("access-control") for name in map(str.lower, response.headers))
