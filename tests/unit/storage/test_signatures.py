"""V4 signatures: the canonical request is written out by hand here, as the documentation has it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from infra.local.storage.errors import StorageError
from infra.local.storage.signed_urls import ReceivedRequest, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGNED_AT = datetime(2030, 1, 31, 23, 59, 30, tzinfo=UTC)
EMAIL = "me@project.iam.gserviceaccount.com"
PARAMETERS = (
    "X-Goog-Algorithm=GOOG4-RSA-SHA256"
    "&X-Goog-Credential=me%40project.iam.gserviceaccount.com"
    "%2F20300131%2Fauto%2Fstorage%2Fgoog4_request"
    "&X-Goog-Date=20300131T235930Z"
    "&X-Goog-Expires=60"
    "&X-Goog-SignedHeaders={signed_headers}"
)
CANONICAL = "PUT\n/bucket/a%20b\n{query}\n{headers}\n\n{names}\nUNSIGNED-PAYLOAD"
HEADERS = (("Host", "127.0.0.1:8080"), ("Content-Type", "audio/webm"))


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True)
class Signer:
    key: rsa.RSAPrivateKey
    headers: tuple[tuple[str, str], ...] = HEADERS
    canonical_headers: str = "content-type:audio/webm\nhost:127.0.0.1:8080"
    names: str = "content-type;host"
    extra_query: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def request(self) -> ReceivedRequest:
        query = PARAMETERS.format(signed_headers=self.names.replace(";", "%3B")) + self.extra_query
        for old, new in self.parameters.items():
            query = query.replace(old, new)
        canonical = CANONICAL.format(query=query, headers=self.canonical_headers, names=self.names)
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        scope = "20300131/auto/storage/goog4_request"
        message = f"GOOG4-RSA-SHA256\n20300131T235930Z\n{scope}\n{digest}".encode()
        signature = self.key.sign(message, PKCS1v15(), SHA256()).hex()
        return ReceivedRequest(
            "PUT", "/bucket/a%20b", f"{query}&X-Goog-Signature={signature}", self.headers
        )

    def check(self, now: datetime = SIGNED_AT) -> dict[str, str]:
        return verify(self.request(), {EMAIL: self.key.public_key()}, now)


def test_a_request_signed_as_documented_is_accepted_with_trimmed_and_joined_headers(
    key: rsa.RSAPrivateKey,
) -> None:
    headers = (*HEADERS, ("X-Multi", "  a   b\tc "), ("x-multi", "d"))
    canonical = "content-type:audio/webm\nhost:127.0.0.1:8080\nx-multi:a b c,d"
    names = "content-type;host;x-multi"

    signed = Signer(key, headers=headers, canonical_headers=canonical, names=names).check()

    assert Signer(key).check() == {"content-type": "audio/webm", "host": "127.0.0.1:8080"}
    assert signed["x-multi"] == "a b c,d"


def test_a_signature_is_valid_from_a_quarter_of_an_hour_before_its_date_until_it_expires(
    key: rsa.RSAPrivateKey,
) -> None:
    for moment in (-15 * 60, 60 - 1e-6):
        Signer(key).check(SIGNED_AT + timedelta(seconds=moment))
    with pytest.raises(StorageError, match=r"^ExpiredToken: .*2030-02-01T00:00:30"):
        Signer(key).check(SIGNED_AT + timedelta(seconds=60))
    with pytest.raises(StorageError, match=r"^RequestTimeTooSkewed: "):
        Signer(key).check(SIGNED_AT - timedelta(minutes=15, seconds=1))
    Signer(key, parameters={"Expires=60": "Expires=604800"}).check(SIGNED_AT + timedelta(days=6))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20300131%2Fauto", "20300130%2Fauto"),
        ("RSA", "DSA"),
        ("T235930Z", "T995930Z"),
        ("T235930Z", ""),
        ("Expires=60", "Expires=6e1"),
        ("Expires=60", "Expires=0"),
        ("Expires=60", "Expires=604801"),
        ("Expires=60", "Expires=60&x-goog-expires=60"),
        ("&X-Goog-Expires=60", ""),
    ],
)
def test_even_a_well_signed_request_must_have_the_documented_parameters(
    key: rsa.RSAPrivateKey, old: str, new: str
) -> None:
    with pytest.raises(StorageError, match=r"^MalformedSecurityHeader: "):
        Signer(key, parameters={old: new}).check()


@pytest.mark.parametrize(
    ("names", "canonical_headers"),
    [
        ("content-type", "content-type:audio/webm"),
        ("host;content-type", "host:127.0.0.1:8080\ncontent-type:audio/webm"),
        ("Host", "Host:127.0.0.1:8080"),
        ("host;host", "host:127.0.0.1:8080\nhost:127.0.0.1:8080"),
        ("host;x-missing", "host:127.0.0.1:8080\nx-missing:"),
    ],
)
def test_signed_headers_must_be_sorted_lower_case_present_and_include_the_host(
    key: rsa.RSAPrivateKey, names: str, canonical_headers: str
) -> None:
    with pytest.raises(StorageError, match=r"^MalformedSecurityHeader: "):
        Signer(key, names=names, canonical_headers=canonical_headers).check()


def test_a_goog_header_must_be_signed_and_another_need_not(key: rsa.RSAPrivateKey) -> None:
    Signer(key, headers=(*HEADERS, ("Accept", "*/*"))).check()
    with pytest.raises(StorageError, match=r"^MalformedSecurityHeader: ") as caught:
        Signer(key, headers=(*HEADERS, ("X-Goog-Meta-A", "b"))).check()
    assert caught.value.parameter == "x-goog-meta-a"


@pytest.mark.parametrize(
    "change",
    [
        {"method": "GET"},
        {"raw_path": "/bucket/a%20c"},
        {"raw_path": "/bucket/a b"},
        {"headers": (("host", "127.0.0.1:8081"), ("content-type", "audio/webm"))},
        {"headers": (("host", "127.0.0.1:8080"), ("content-type", "audio/wav"))},
        {"headers": (*HEADERS, ("Content-Type", "audio/wav"))},
    ],
)
def test_no_signed_part_may_be_altered(
    key: rsa.RSAPrivateKey, change: Mapping[str, object]
) -> None:
    request = replace(Signer(key).request(), **change)  # type: ignore[arg-type]

    with pytest.raises(StorageError, match=r"^SignatureDoesNotMatch: "):
        verify(request, {EMAIL: key.public_key()}, SIGNED_AT)


def test_encodings_that_mean_the_same_are_the_same(key: rsa.RSAPrivateKey) -> None:
    request = Signer(key, extra_query="&z=a%20b~%2B").request()
    other = replace(request, raw_query=request.raw_query.replace("a%20b~%2B", "a+b%7E%2b"))

    verify(other, {EMAIL: key.public_key()}, SIGNED_AT)
