"""Signing without a key file."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from google.auth import credentials as auth

from tests.integration.storage.serving import UPLOADER, Server, download_url

if TYPE_CHECKING:
    import requests

TOKEN = {"Authorization": "Bearer local"}


class KeylessCredentials(auth.Signing):
    """Signs through the IAM Credentials API at a given address."""

    def __init__(self, url: str, http: requests.Session) -> None:
        self._url = f"{url}/v1/projects/-/serviceAccounts/{UPLOADER}:signBlob"
        self._http = http

    @property
    def signer_email(self) -> str:
        return UPLOADER

    @property
    def signer(self) -> None:
        return None

    def sign_bytes(self, message: bytes) -> bytes:
        body = {"payload": base64.b64encode(message).decode()}
        response = self._http.post(self._url, json=body, headers=TOKEN)
        response.raise_for_status()
        return base64.b64decode(response.json()["signedBlob"])


def test_a_url_signed_without_a_key_is_obeyed(
    bucket: Any, server: Server, http: requests.Session
) -> None:
    blob = bucket.blob("a")
    blob.upload_from_string(b"sound")

    url = download_url(blob, KeylessCredentials(server.url, http))

    assert http.get(url).content == b"sound"


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        (f"{UPLOADER}:signBlob", {}, {"payload": ""}, 401),
        (f"{UPLOADER}:signBlob", {"Authorization": "Basic x"}, {"payload": ""}, 401),
        ("nobody@example.com:signBlob", TOKEN, {"payload": ""}, 404),
        (f"{UPLOADER}:signJwt", TOKEN, {"payload": ""}, 404),
        (f"{UPLOADER}:signBlob", TOKEN, {"payload": "%%"}, 400),
        (f"{UPLOADER}:signBlob", TOKEN, {}, 400),
    ],
)
def test_a_request_that_cannot_be_signed_is_refused(
    *,
    server: Server,
    http: requests.Session,
    path: str,
    headers: dict[str, str],
    body: dict[str, str],
    status: int,
) -> None:
    url = f"{server.url}/v1/projects/-/serviceAccounts/{path}"

    response = http.post(url, json=body, headers=headers)

    assert response.status_code == status
    assert response.json()["error"]["code"] == status
