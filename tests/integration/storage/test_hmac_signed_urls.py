"""Addresses signed with an HMAC key are obeyed as those signed with a service account's key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from google.cloud import storage

from shared.google.signatures import HmacSigner
from shared.google.storage import CloudStorageBucket
from tests.integration.storage.serving import (
    ACCESS_ID,
    PROJECT,
    SECRET,
    UPLOADER,
    Server,
    download_url,
    error_code,
)

if TYPE_CHECKING:
    import requests

SOUND = b"sound" * 20


@pytest.fixture
def signer(server: Server) -> HmacSigner:
    return HmacSigner(ACCESS_ID, SECRET, server.clock)


@pytest.fixture
def ours(bucket: Any, client: Any, signer: HmacSigner, server: Server) -> CloudStorageBucket:
    return CloudStorageBucket(client, bucket.name, signer, server.clock)


def altered(url: str, **parameters: str) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | parameters
    return parts._replace(query=urlencode(query)).geturl()


async def uploaded(ours: CloudStorageBucket, http: requests.Session, **headers: str) -> Any:
    signed = await ours.sign_upload(
        "v/voice one.webm",
        content_type="audio/webm",
        max_bytes=1000,
        lifetime=timedelta(minutes=5),
    )
    return http.put(signed.url, data=SOUND, headers={**signed.headers, **headers})


async def test_an_upload_and_a_download_work_with_an_hmac_key(
    ours: CloudStorageBucket, http: requests.Session, bucket: Any
) -> None:
    assert (await uploaded(ours, http)).status_code == 200
    assert bucket.blob("v/voice one.webm").download_as_bytes() == SOUND

    url, _ = await ours.sign_download(
        "v/voice one.webm", lifetime=timedelta(minutes=5), filename="voice.webm"
    )
    response = http.get(url)

    assert (response.status_code, response.content) == (200, SOUND)
    assert response.headers["content-disposition"] == 'inline; filename="voice.webm"'


async def test_what_an_upload_was_signed_for_cannot_be_changed(
    ours: CloudStorageBucket, http: requests.Session
) -> None:
    longer = await uploaded(ours, http, **{"x-goog-content-length-range": "1,999999"})
    assert error_code(longer) == "SignatureDoesNotMatch"
    other_type = await uploaded(ours, http, **{"Content-Type": "text/html"})
    assert error_code(other_type) == "SignatureDoesNotMatch"


async def test_a_second_upload_is_refused(ours: CloudStorageBucket, http: requests.Session) -> None:
    assert (await uploaded(ours, http)).status_code == 200
    assert (await uploaded(ours, http)).status_code == 412


async def test_an_expired_address_is_refused(
    ours: CloudStorageBucket, http: requests.Session, server: Server
) -> None:
    url, _ = await ours.sign_download("v/1", lifetime=timedelta(minutes=5), filename="1.wav")
    server.clock.ahead += timedelta(minutes=6)
    assert error_code(http.get(url)) == "ExpiredToken"


def test_another_secret_signs_nothing(
    bucket: Any, http: requests.Session, signer: HmacSigner, server: Server
) -> None:
    stranger = replace(signer, secret="another secret of forty characters...")
    until = server.clock() + timedelta(minutes=5)
    url = stranger.sign_url(bucket.blob("v/1"), "GET", until)
    assert error_code(http.get(url)) == "SignatureDoesNotMatch"


def test_an_unknown_access_id_is_refused(
    bucket: Any, http: requests.Session, signer: HmacSigner, server: Server
) -> None:
    stranger = replace(signer, access_id="GOOG1NOBODYNOBODYNOBODYNOBODY")
    url = stranger.sign_url(bucket.blob("v/1"), "GET", server.clock() + timedelta(minutes=5))
    assert error_code(http.get(url)) == "InvalidSecurity"


def test_an_account_does_not_sign_by_the_other_ones_algorithm(
    bucket: Any, http: requests.Session, credentials: Any, signer: HmacSigner, server: Server
) -> None:
    until = server.clock() + timedelta(minutes=5)
    by_key = download_url(bucket.blob("v/1"), credentials)
    pretended = altered(by_key, **{"X-Goog-Algorithm": "GOOG4-HMAC-SHA256"})
    assert error_code(http.get(pretended)) == "SignatureDoesNotMatch"
    as_uploader = replace(signer, access_id=UPLOADER)
    url = as_uploader.sign_url(bucket.blob("v/1"), "GET", until)
    assert error_code(http.get(url)) == "SignatureDoesNotMatch"


def test_signing_makes_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    blob = storage.Client(project=PROJECT).bucket("uploads").blob("v/1")
    now = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    signer = HmacSigner(ACCESS_ID, SECRET, lambda: now)
    url = signer.sign_url(blob, "GET", now + timedelta(seconds=60))
    assert "X-Goog-Algorithm=GOOG4-HMAC-SHA256" in url
    assert "X-Goog-Date=20300102T030405Z" in url
    assert "X-Goog-Expires=60" in url


def test_a_signer_does_not_show_its_secret() -> None:
    assert SECRET not in repr(HmacSigner(ACCESS_ID, SECRET))
