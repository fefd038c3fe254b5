from __future__ import annotations

import base64
import json
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.configuration.keys import make_key
from shared.google.app_check import (
    APP_CHECK_ISSUER,
    AppCheckTokenVerifier,
    keys_of_set,
    read_own_key,
)
from shared.google.tokens import CertificateCache, Certificates
from shared.ports.tokens import TokenRefusedError
from tests.support.tokens import Issuer, unsigned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@cache
def app_check() -> Issuer:
    return Issuer("key-1")


@cache
def stranger() -> Issuer:
    return Issuer("key-1")


def key_set(*issuers: Issuer) -> Mapping[str, Any]:
    """Return the issuers' public keys in the form in which App Check publishes its own."""

    def text(number: int) -> str:
        data = number.to_bytes((number.bit_length() + 7) // 8)
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    return {
        "keys": [
            {
                "kty": "RSA",
                "use": "sig",
                "alg": "RS256",
                "kid": issuer.key_id,
                "n": text(issuer.key.public_key().public_numbers().n),
                "e": text(issuer.key.public_key().public_numbers().e),
            }
            for issuer in issuers
        ]
    }


def verifier() -> AppCheckTokenVerifier:
    keys = CertificateCache(lambda: Certificates(keys_of_set(key_set(app_check())), 3600))
    return AppCheckTokenVerifier(keys, project_id="p")


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {
        "iss": f"{APP_CHECK_ISSUER}123456",
        "aud": ["projects/123456", "projects/p"],
        "sub": "1:123456:web:abc",
        "iat": now,
        "exp": now + 3600,
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


async def test_a_token_of_a_page_of_the_project_is_accepted() -> None:
    read = await verifier().verify(app_check().sign(claims()))

    assert read["sub"] == "1:123456:web:abc"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"iss": "https://securetoken.google.com/p"}, "not issued by App Check"),
        ({"iss": None}, "not issued by App Check"),
        ({"aud": ["projects/9", "projects/other"]}, "not issued for project p"),
        ({"aud": "projects/p"}, "not issued for project p"),
        ({"aud": None}, "not issued for project p"),
        ({"sub": ""}, "names no app"),
        ({"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}, "expired"),
    ],
)
async def test_a_token_that_says_something_else_is_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TokenRefusedError, match=complaint):
        await verifier().verify(app_check().sign(claims(**changes)))


async def test_a_token_that_somebody_else_has_signed_is_refused() -> None:
    with pytest.raises(TokenRefusedError, match="not valid"):
        await verifier().verify(stranger().sign(claims()))


async def test_a_token_that_nobody_has_signed_is_refused() -> None:
    with pytest.raises(TokenRefusedError):
        await verifier().verify(unsigned(claims()))


@pytest.mark.parametrize("header", [None, ""])
async def test_a_request_without_a_token_is_refused(header: str | None) -> None:
    with pytest.raises(TokenRefusedError, match="no header X-Firebase-AppCheck"):
        await verifier().verify(header)


@pytest.mark.parametrize("header", ["x", "a.b.c", "Bearer x", "\x00.\xff."])
async def test_a_header_that_is_no_token_is_refused(header: str) -> None:
    with pytest.raises(TokenRefusedError):
        await verifier().verify(header)


def test_keys_of_another_kind_are_left_out() -> None:
    keys = {"keys": [{"kty": "EC", "kid": "other"}, *key_set(app_check())["keys"]]}

    assert keys_of_set(keys).keys() == {"key-1"}


@pytest.mark.parametrize("answer", [{}, [], {"keys": [{"kty": "RSA", "kid": "a"}]}, None])
def test_a_document_that_is_not_a_key_set_is_refused(answer: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        keys_of_set(answer)


async def test_the_local_clouds_own_key_vouches_for_its_own_page(tmp_path: Path) -> None:
    key = make_key()
    key.write(tmp_path / "key.json")
    checking = AppCheckTokenVerifier(
        CertificateCache(lambda: read_own_key(tmp_path / "key.json")), project_id="p"
    )

    assert await checking.verify(key.app_check_token("p"))
    with pytest.raises(TokenRefusedError, match="project p"):
        await checking.verify(key.app_check_token("other"))
    assert json.loads((tmp_path / "key.json").read_text())["private_key_id"] == "local"
