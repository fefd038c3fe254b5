from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.integration.storage.serving import (
    SITE,
    RecordingTopic,
    Server,
    ShiftedClock,
    SignedAddressUser,
    connected,
    credentials_of,
    served,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.oauth2 import service_account


@pytest.fixture(scope="session")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="session")
def other_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def credentials(key: rsa.RSAPrivateKey) -> service_account.Credentials:
    return credentials_of(key)


@pytest.fixture
def topic() -> RecordingTopic:
    return RecordingTopic()


@pytest.fixture
def server(tmp_path: Path, key: rsa.RSAPrivateKey, topic: RecordingTopic) -> Iterator[Server]:
    with served(tmp_path / "storage", key, topic, ShiftedClock()) as running:
        yield running


@pytest.fixture
def client(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with connected(server, monkeypatch) as made:
        yield made


@pytest.fixture
def bucket(client: Any) -> Any:
    made = client.bucket("uploads")
    made.cors = [
        {
            "origin": [SITE],
            "method": ["PUT", "GET"],
            "responseHeader": [
                "Content-Type",
                "x-goog-content-length-range",
                "x-goog-if-generation-match",
            ],
            "maxAgeSeconds": 600,
        }
    ]
    return client.create_bucket(made)


@pytest.fixture
def http() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.fixture
def visitor(bucket: Any, credentials: Any, http: requests.Session) -> SignedAddressUser:
    return SignedAddressUser(bucket, credentials, http)
