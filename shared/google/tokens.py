"""Verification of identity tokens: of Pub/Sub's pushes, of signed-in visitors and of App Check.

Google's own verifier fetches the certificates at every call. Here they are kept for as long as
their server allows, so a push costs one signature check and no request.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import requests
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from google.auth import exceptions as auth_errors
from google.auth import jwt

from shared.ports import CertificatesUnavailableError, TokenRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


GOOGLE_CERTIFICATES: Final = "https://www.googleapis.com/oauth2/v1/certs"
GOOGLE_ISSUERS: Final = ("accounts.google.com", "https://accounts.google.com")
FIREBASE_CERTIFICATES: Final = (
    "https://www.googleapis.com/robot/v1/metadata/x509/securetoken@system.gserviceaccount.com"
)

REMOVED_SIGNATURE: Final = "SIGNATURE_REMOVED_BY_GOOGLE"
"""Cloud Run's replacement of a signature that it has verified itself.

https://cloud.google.com/run/docs/troubleshooting#signature-removed
"""

CLOCK_SKEW_SECONDS: Final = 60
FETCH_SECONDS: Final = 5.0
LEAST_SECONDS_BETWEEN_FETCHES: Final = 30.0  # for unknown key ids, which strangers can invent
SECONDS_AFTER_A_FAILURE: Final = 5.0  # requests in that time fail at once

# Expired certificates serve so long while new ones can't be fetched; Google changes its keys far
# less often.
GRACE_SECONDS: Final = 3600.0

_FIRST_WORDS: Final = re.compile(r"[A-Za-z' ]{1,60}")


@dataclass(frozen=True, slots=True)
class Certificates:
    by_key_id: Mapping[str, str]  # public certificates or keys as PEM
    lifetime_seconds: float


def by_key_id(answer: Any) -> Mapping[str, str]:
    if not isinstance(answer, dict):
        raise TypeError("the answer is not an object of certificates")
    return answer


def fetch_certificates(
    address: str, read: Callable[[Any], Mapping[str, str]] = by_key_id
) -> Certificates:
    """Fetch certificates over HTTPS; their lifetime is the response's `max-age`."""
    try:
        response = requests.get(address, timeout=FETCH_SECONDS)
        response.raise_for_status()
        certificates = read(response.json())
    except (requests.RequestException, ValueError, TypeError, KeyError) as error:
        raise CertificatesUnavailableError(f"no certificates came from {address}") from error
    max_age = re.search(r"max-age=(\d+)", response.headers.get("cache-control", ""))
    return Certificates(certificates, float(max_age[1]) if max_age else 0.0)


class CertificateCache:
    def __init__(
        self, fetch: Callable[[], Certificates], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self._certificates = Certificates({}, 0.0)
        self._fetched_at = float("-inf")
        self._failed_at = float("-inf")
        self._one_fetch = asyncio.Lock()

    async def for_key(self, key_id: str) -> Mapping[str, str]:
        """Return all certificates; fetch them again if they are old or lack `key_id`.

        If the fetch fails, certificates that have the key are used for `GRACE_SECONDS` longer;
        after that, it raises `CertificatesUnavailableError`.
        """
        async with self._one_fetch:
            is_known = key_id in self._certificates.by_key_id
            lifetime = max(self._certificates.lifetime_seconds, LEAST_SECONDS_BETWEEN_FETCHES)
            age = self._monotonic() - self._fetched_at
            if age >= (lifetime if is_known else LEAST_SECONDS_BETWEEN_FETCHES):
                try:
                    self._certificates = await self._fetch_unless_it_just_failed()
                    self._fetched_at = self._monotonic()
                except CertificatesUnavailableError:
                    if not is_known or age >= lifetime + GRACE_SECONDS:
                        raise
        return self._certificates.by_key_id

    async def _fetch_unless_it_just_failed(self) -> Certificates:
        if self._monotonic() - self._failed_at < SECONDS_AFTER_A_FAILURE:
            raise CertificatesUnavailableError("no certificates came a moment ago")
        try:
            return await asyncio.to_thread(self._fetch)
        except Exception:
            self._failed_at = self._monotonic()
            raise


@dataclass(frozen=True, slots=True)
class GoogleTokenVerifier:
    """A `TokenVerifier` for the OIDC tokens of one Pub/Sub subscription or scheduler job.

    Attributes:
        email: the service account that the token must name.
        signature_may_be_removed: only IAM's invokers can reach this service, so Cloud Run has
            verified a token whose signature was removed.
    """

    certificates: CertificateCache
    audience: str
    email: str
    signature_may_be_removed: bool = False

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        token = bearer_token(authorization)
        if self.signature_may_be_removed and token.endswith(f".{REMOVED_SIGNATURE}"):
            claims = unexpired_claims(token, self.audience)
        else:
            claims = await verified_claims(token, self.certificates, self.audience)
        if claims.get("iss") not in GOOGLE_ISSUERS:
            raise TokenRefusedError("the token was not issued by Google")
        # Any Google account can get a token for this audience, so the e-mail decides.
        if claims.get("email_verified") is not True or claims.get("email") != self.email:
            raise TokenRefusedError(f"the token is not one of {self.email}")
        return claims


@dataclass(frozen=True, slots=True)
class FirebaseTokenVerifier:
    """A `TokenVerifier` for visitors who signed in with Firebase; `sub` is the uid."""

    certificates: CertificateCache
    project_id: str

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        token = bearer_token(authorization)
        claims = await verified_claims(token, self.certificates, self.project_id)
        if claims.get("iss") != f"https://securetoken.google.com/{self.project_id}":
            raise TokenRefusedError(f"the token was not issued for project {self.project_id}")
        if not claims.get("sub"):
            raise TokenRefusedError("the token names no user")
        return claims


def unexpired_claims(token: str, audience: str) -> Mapping[str, Any]:
    """Return the claims of a token whose signature Cloud Run has checked and removed."""
    # The library decodes the signature's base64 even if it does not verify the signature.
    unsigned = token.removesuffix(REMOVED_SIGNATURE)
    claims = read_token(lambda: jwt.decode(unsigned, verify=False))
    if not isinstance(claims, dict) or claims.get("aud") != audience:
        raise TokenRefusedError(f"the token is not made out to {audience}")
    expiry = claims.get("exp")
    if not isinstance(expiry, int) or expiry + CLOCK_SKEW_SECONDS < time.time():
        raise TokenRefusedError("the token has expired")
    return claims


def bearer_token(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise TokenRefusedError("the request has no header `Authorization: Bearer TOKEN`")
    return token


async def verified_claims(
    token: str, certificates: CertificateCache, audience: str | None
) -> Mapping[str, Any]:
    """Check a token's signature, times and audience, unless that is None; return its claims."""
    key_id = str(read_token(lambda: jwt.decode_header(token).get("kid", "")))
    known = await certificates.for_key(key_id)
    if key_id not in known:
        raise TokenRefusedError("the token was signed with an unknown key")
    claims = read_token(
        lambda: jwt.decode(
            token, certs=known, audience=audience, clock_skew_in_seconds=CLOCK_SKEW_SECONDS
        )
    )
    if not isinstance(claims, dict):
        raise TokenRefusedError("the token has no claims")
    return claims


def read_token(use_library: Callable[[], Any]) -> Any:
    """Return the library's reading of a token; any of its errors refuses the token.

    The library's messages can contain the token or other text of the sender, which must not appear
    in a log or an answer. Only the words before that are kept.
    """
    try:
        return use_library()
    except auth_errors.GoogleAuthError as error:
        found = _FIRST_WORDS.match(str(error))
        reason = f": {found[0].strip()}" if found else ""
        raise TokenRefusedError(f"the token is not valid{reason}") from error
    except Exception as error:
        raise TokenRefusedError("the token is not valid") from error


APP_CHECK_KEYS: Final = "https://firebaseappcheck.googleapis.com/v1/jwks"
APP_CHECK_ISSUER: Final = "https://firebaseappcheck.googleapis.com/"


@dataclass(frozen=True, slots=True)
class AppCheckTokenVerifier:
    """A `TokenVerifier` for App Check tokens; the claim `sub` is the app's id."""

    keys: CertificateCache
    project_id: str
    app_id: str | None = None  # None for any app of the project

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        """Verify the header `X-Firebase-AppCheck`, a token without a scheme."""
        if not authorization:
            raise TokenRefusedError("the request has no header X-Firebase-AppCheck")
        claims = await verified_claims(authorization, self.keys, None)
        if not str(claims.get("iss", "")).startswith(APP_CHECK_ISSUER):
            raise TokenRefusedError("the token was not issued by App Check")
        audience = claims.get("aud")
        if not isinstance(audience, list) or f"projects/{self.project_id}" not in audience:
            raise TokenRefusedError(f"the token was not issued for project {self.project_id}")
        if not claims.get("sub"):
            raise TokenRefusedError("the token names no app")
        if self.app_id not in {None, claims["sub"]}:
            raise TokenRefusedError("the token is of another app of the project")
        return claims


def keys_of_set(answer: Any) -> Mapping[str, str]:
    """Return the RSA keys (PEM) of a JSON Web Key Set (RFC 7517) by key id."""

    def number(text: str) -> int:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))

    def pem(key: Mapping[str, str]) -> str:
        public = RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    return {key["kid"]: pem(key) for key in answer["keys"] if key["kty"] == "RSA"}


def read_own_key(path: Path) -> Certificates:
    """Return the public key of a service account's key file, for the local cloud's tokens."""
    fields = json.loads(path.read_text())
    private = load_pem_private_key(fields["private_key"].encode(), None)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Certificates({fields["private_key_id"]: public.decode()}, math.inf)
