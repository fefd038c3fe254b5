from __future__ import annotations

import asyncio
import base64
import json
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from starlette.datastructures import Headers

from infra.local.configuration.keys import make_key
from shared.google.tokens import (
    APP_CHECK_ISSUER,
    GRACE_SECONDS,
    LEAST_SECONDS_BETWEEN_FETCHES,
    SECONDS_AFTER_A_FAILURE,
    AppCheckTokenVerifier,
    CertificateCache,
    Certificates,
    FirebaseTokenVerifier,
    GoogleTokenVerifier,
    fetch_certificates,
    keys_of_set,
    read_own_key,
)
from shared.ports import CertificatesUnavailableError, TokenRefusedError
from shared.runtime.push import authorization_of
from tests.support.clock import Clock
from tests.support.http_server import Answer, serving
from tests.support.tokens import (
    AUDIENCE,
    EMAIL,
    CertificateServer,
    Issuer,
    push_claims,
    unsigned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@cache
def google() -> Issuer:
    return Issuer("key-1")


@cache
def stranger() -> Issuer:
    return Issuer("key-1")


def verifier(
    server: CertificateServer | None = None,
    clock: Clock | None = None,
    *,
    signature_may_be_removed: bool = False,
) -> GoogleTokenVerifier:
    cache_of = CertificateCache((server or CertificateServer(google())).fetch, clock or Clock(0.0))
    return GoogleTokenVerifier(cache_of, AUDIENCE, EMAIL, signature_may_be_removed)


def bearer(**changes: Any) -> str:
    return f"Bearer {google().sign(push_claims(**changes))}"


async def test_the_subscriptions_own_token_is_accepted() -> None:
    claims = await verifier().verify(bearer())

    assert (claims["email"], claims["aud"]) == (EMAIL, AUDIENCE)


async def test_the_scheme_ignores_case_and_googles_short_issuer_is_accepted() -> None:
    token = google().sign(push_claims(iss="accounts.google.com"))

    assert await verifier().verify(f"bearer {token}")


NOW = int(time.time())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"aud": "https://other.example"}, "audience"),
        ({"aud": None}, "audience"),
        ({"email": "other@project.iam.gserviceaccount.com"}, f"not one of {EMAIL}"),
        ({"email": None}, "not one of"),
        ({"email": EMAIL.upper()}, "not one of"),
        ({"email_verified": False}, "not one of"),
        ({"email_verified": "true"}, "not one of"),
        ({"email_verified": None}, "not one of"),
        ({"iss": "https://evil.example"}, "not issued by Google"),
        ({"iss": None}, "not issued by Google"),
        ({"iat": NOW - 7200, "exp": NOW - 3600}, "expired"),
        ({"iat": NOW + 3600, "exp": NOW + 7200}, "too early"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
    ],
)
async def test_a_token_with_a_missing_or_wrong_claim_is_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TokenRefusedError, match=complaint):
        await verifier().verify(bearer(**changes))


@pytest.mark.parametrize(
    "header",
    [None, "Bearer ", "Basic dXNlcjpw", "Bearer a.b.c", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.e30"],
)
async def test_a_value_that_is_not_a_token_is_refused(header: str | None) -> None:
    with pytest.raises(TokenRefusedError):
        await verifier().verify(header)


def segments(*parts: str) -> str:
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


@pytest.mark.parametrize(
    "token",
    [
        segments('{"alg": [], "kid": "key-1"}', "{}", "x"),
        segments('{"alg": {}, "kid": "key-1"}', "{}", "x"),
        segments("[" * 5_000, "{}", "x"),
        segments('{"kid": ' + "9" * 5_000 + "}", "{}", "x"),
        segments("{}", json.dumps(push_claims(iss=[]))) + ".SIGNATURE_REMOVED_BY_GOOGLE",
    ],
)
async def test_a_token_that_its_reader_stumbles_over_is_refused(token: str) -> None:
    for asked in (verifier(), verifier(signature_may_be_removed=True)):
        with pytest.raises(TokenRefusedError):
            await asked.verify(f"Bearer {token}")


@pytest.mark.parametrize("token", ["secret", "secret.secret", "secret.secret.secret", "a\nb"])
async def test_the_reason_of_a_refusal_never_contains_the_token(token: str) -> None:
    with pytest.raises(TokenRefusedError) as error:
        await verifier().verify(f"Bearer {token}")

    assert token not in str(error.value)


def altered() -> str:
    head, _, signature = google().sign(push_claims(aud="https://other.example")).split(".")
    _, body, _ = google().sign(push_claims()).split(".")
    return f"{head}.{body}.{signature}"


@pytest.mark.parametrize(
    "make", [lambda: stranger().sign(push_claims()), lambda: unsigned(push_claims()), altered]
)
async def test_a_token_with_another_keys_or_no_or_an_old_signature_is_refused(
    make: Callable[[], str],
) -> None:
    with pytest.raises(TokenRefusedError, match="not valid"):
        await verifier().verify(f"Bearer {make()}")


@pytest.mark.parametrize(("lifetime", "kept"), [(100, 100.0), (0, LEAST_SECONDS_BETWEEN_FETCHES)])
async def test_certificates_are_fetched_once_while_they_are_fresh_but_not_all_the_time(
    lifetime: float, kept: float
) -> None:
    server, clock = CertificateServer(google(), lifetime_seconds=lifetime), Clock(0.0)
    checking = verifier(server, clock)

    for seconds in (0.0, kept - 1):
        clock.seconds = seconds
        await checking.verify(bearer())
    assert server.fetches == 1
    clock.seconds = kept
    await checking.verify(bearer())
    assert server.fetches == 2


async def test_made_up_key_ids_cause_no_storm_of_fetches() -> None:
    server, clock = CertificateServer(google()), Clock(0.0)
    checking = verifier(server, clock)
    made_up = Issuer("made-up").sign(push_claims())

    for _ in range(20):
        with pytest.raises(TokenRefusedError, match="unknown key"):
            await checking.verify(f"Bearer {made_up}")
    assert server.fetches == 1


async def test_a_new_key_is_known_soon_after_it_appears() -> None:
    server, clock, rotated = CertificateServer(google()), Clock(0.0), Issuer("key-2")
    checking = verifier(server, clock)
    token = f"Bearer {rotated.sign(push_claims())}"
    await checking.verify(bearer())
    server.by_key_id["key-2"] = rotated.certificate

    with pytest.raises(TokenRefusedError):
        await checking.verify(token)
    clock.seconds = LEAST_SECONDS_BETWEEN_FETCHES
    assert await checking.verify(token)
    assert server.fetches == 2


class FailingServer(CertificateServer):
    is_down = False

    def fetch(self) -> Certificates:
        certificates = super().fetch()
        if self.is_down:
            raise CertificatesUnavailableError("down")
        return certificates


async def test_a_fetch_that_failed_is_not_repeated_for_everybody_who_waits_for_it() -> None:
    server, clock = FailingServer(google()), Clock(0.0)
    checking, token = verifier(server, clock), bearer()
    server.is_down = True

    outcomes = await asyncio.gather(
        *(checking.verify(token) for _ in range(20)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {CertificatesUnavailableError}
    assert server.fetches == 1

    server.is_down = False
    clock.seconds = SECONDS_AFTER_A_FAILURE
    assert await checking.verify(token)
    assert server.fetches == 2


async def test_old_certificates_do_for_a_while_when_no_new_ones_come() -> None:
    server, clock = FailingServer(google(), lifetime_seconds=100), Clock(0.0)
    checking = verifier(server, clock)
    await checking.verify(bearer())
    server.is_down = True

    clock.seconds = 100.0 + GRACE_SECONDS - 1
    assert await checking.verify(bearer())
    clock.seconds += 1 + SECONDS_AFTER_A_FAILURE
    with pytest.raises(CertificatesUnavailableError, match="down"):
        await checking.verify(bearer())


async def test_made_up_key_ids_do_no_harm_to_known_ones_when_no_new_certificates_come() -> None:
    server, clock = FailingServer(google()), Clock(0.0)
    checking = verifier(server, clock)
    await checking.verify(bearer())
    server.is_down = True
    clock.seconds = LEAST_SECONDS_BETWEEN_FETCHES

    with pytest.raises(CertificatesUnavailableError):
        await checking.verify(f"Bearer {Issuer('made-up').sign(push_claims())}")

    assert await checking.verify(bearer())


@pytest.mark.parametrize("name", ["X-Serverless-Authorization", "x-serverless-authorization"])
def test_a_request_whose_authorization_cloud_run_has_not_checked_is_refused(name: str) -> None:
    headers = Headers({"Authorization": "Bearer a.b.SIGNATURE_REMOVED_BY_GOOGLE"})

    assert authorization_of(headers) == headers["authorization"]
    with pytest.raises(TokenRefusedError, match="X-Serverless-Authorization"):
        authorization_of(Headers({**headers, name: "Bearer x"}))


def firebase_claims(**changes: Any) -> dict[str, Any]:
    return push_claims(
        **({"iss": "https://securetoken.google.com/p", "aud": "p", "sub": "uid"} | changes)
    )


def firebase_verifier() -> FirebaseTokenVerifier:
    return FirebaseTokenVerifier(CertificateCache(CertificateServer(google()).fetch), "p")


async def test_a_signed_in_visitor_is_known_by_uid() -> None:
    claims = await firebase_verifier().verify(f"Bearer {google().sign(firebase_claims())}")

    assert claims["sub"] == "uid"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"iss": "https://securetoken.google.com/other"}, "not issued for project p"),
        ({"aud": "other"}, "audience"),
        ({"sub": ""}, "names no user"),
        ({"sub": None}, "names no user"),
    ],
)
async def test_a_visitor_of_another_project_is_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TokenRefusedError, match=complaint):
        await firebase_verifier().verify(f"Bearer {google().sign(firebase_claims(**changes))}")


@pytest.mark.parametrize(
    ("cache_control", "lifetime"),
    [("public, max-age=19302, must-revalidate", 19302.0), ("no-cache", 0.0), (None, 0.0)],
)
def test_fetched_certificates_are_kept_as_long_as_their_server_says(
    cache_control: str | None, lifetime: float
) -> None:
    headers = {"Cache-Control": cache_control} if cache_control else {}
    with serving(lambda _: Answer(b'{"key-1": "PEM"}', headers=headers)) as address:
        assert fetch_certificates(address) == Certificates({"key-1": "PEM"}, lifetime)


@pytest.mark.parametrize(("status", "body"), [(500, b"{}"), (200, b"<html>"), (200, b"[]")])
def test_an_answer_without_certificates_is_none(status: int, body: bytes) -> None:
    with (
        serving(lambda _: Answer(body, status)) as address,
        pytest.raises(CertificatesUnavailableError, match=address),
    ):
        fetch_certificates(address)


async def test_the_local_clouds_own_key_vouches_for_its_visitors_and_its_page(
    tmp_path: Path,
) -> None:
    key = make_key()
    key.write(tmp_path / "key.json")
    certificates = CertificateCache(lambda: read_own_key(tmp_path / "key.json"))
    visitors = FirebaseTokenVerifier(certificates, project_id="p")
    pages = AppCheckTokenVerifier(certificates, project_id="p")

    assert (await visitors.verify(f"Bearer {key.visitor_token('p', 'ada')}"))["sub"] == "ada"
    assert await pages.verify(key.app_check_token("p"))
    for token in (key.visitor_token("other", "ada"), make_key().visitor_token("p", "ada")):
        with pytest.raises(TokenRefusedError):
            await visitors.verify(f"Bearer {token}")
    with pytest.raises(TokenRefusedError, match="project p"):
        await pages.verify(key.app_check_token("other"))


@cache
def app_check() -> Issuer:
    return Issuer("key-1")


def key_set(*issuers: Issuer) -> Mapping[str, Any]:
    """Return the issuers' public keys in the form in which App Check publishes its own."""

    def text(number: int) -> str:
        data = number.to_bytes((number.bit_length() + 7) // 8)
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    return {
        "keys": [
            {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": issuer.key_id}
            | {name: text(getattr(issuer.key.public_key().public_numbers(), name)) for name in "ne"}
            for issuer in issuers
        ]
    }


def app_check_verifier() -> AppCheckTokenVerifier:
    keys = CertificateCache(lambda: Certificates(keys_of_set(key_set(app_check())), 3600))
    return AppCheckTokenVerifier(keys, project_id="p", app_id="1:123456:web:abc")


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
    read = await app_check_verifier().verify(app_check().sign(claims()))

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
        ({"sub": "1:123456:web:def"}, "another app of the project"),
        ({"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}, "expired"),
    ],
)
async def test_a_token_that_says_something_else_is_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TokenRefusedError, match=complaint):
        await app_check_verifier().verify(app_check().sign(claims(**changes)))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: stranger().sign(claims()), "not valid"),
        (lambda: unsigned(claims()), "token"),
        (lambda: None, "no header X-Firebase-AppCheck"),
        (lambda: "", "no header X-Firebase-AppCheck"),
        *((lambda text=text: text, "token") for text in ("x", "a.b.c", "Bearer x", "\x00.\xff.")),
    ],
)
async def test_a_header_without_a_token_of_app_check_is_refused(
    make: Callable[[], str | None], complaint: str
) -> None:
    with pytest.raises(TokenRefusedError, match=complaint):
        await app_check_verifier().verify(make())


def test_keys_of_another_kind_are_left_out() -> None:
    keys = {"keys": [{"kty": "EC", "kid": "other"}, *key_set(app_check())["keys"]]}

    assert keys_of_set(keys).keys() == {"key-1"}


@pytest.mark.parametrize("answer", [{}, [], {"keys": [{"kty": "RSA", "kid": "a"}]}, None])
def test_a_document_that_is_not_a_key_set_is_refused(answer: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        keys_of_set(answer)
