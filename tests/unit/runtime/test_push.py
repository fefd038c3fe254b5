from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from shared.google.tokens import CertificateCache, GoogleTokenVerifier
from shared.ports import CertificatesUnavailableError, NoTokenNeeded
from shared.runtime.push import LARGEST_BODY, AbandonedError, OverloadedError, push_app
from shared.speech.decoding.process_output import DecoderUnavailableError
from shared.voices.messages import MalformedMessageError, PushMessage
from shared.voices.objects import StorageUnavailableError
from shared.voices.store import ConflictError, StoreUnavailableError
from shared.voices.voice import LeaseHeldError, LeaseLostError, PassingError, PublishError
from tests.support.logs import log_book
from tests.support.messages import envelope
from tests.support.tokens import AUDIENCE, EMAIL, CertificateServer, Issuer, push_claims
from tests.support.voices import SECOND, a_converting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from starlette.applications import Starlette


class RecordingHandler:
    def __init__(self, outcome: Exception | None = None) -> None:
        self.outcome = outcome
        self.messages: list[PushMessage] = []

    async def __call__(self, message: PushMessage) -> None:
        self.messages.append(message)
        if self.outcome is not None:
            raise self.outcome


async def post(app: Starlette, content: bytes, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://push.test") as client:
        return await client.post("/", content=content, headers=headers)


BODY = json.dumps(envelope(b"content", {"voice_id": "x"})).encode()


@pytest.mark.parametrize(
    ("outcome", "status", "event"),
    [
        (OverloadedError("full"), 429, "overloaded"),
        (MalformedMessageError("strange"), 422, "malformed_message"),
        (AbandonedError("stops"), 503, "nacked"),
        *(
            (kind("for now"), 503, "nacked")
            for kind in (
                *(PassingError, ConflictError, LeaseLostError, PublishError),
                *(StorageUnavailableError, StoreUnavailableError, DecoderUnavailableError),
            )
        ),
        (LeaseHeldError(a_converting(), SECOND), 503, "nacked"),
        (RuntimeError("surprise"), 500, "unexpected_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_an_unhandled_message_is_delivered_again(
    outcome: Exception, status: int, event: str
) -> None:
    with log_book() as book:
        response = await post(push_app(NoTokenNeeded(), RecordingHandler(outcome)), BODY)

    assert response.status_code == status
    # Pub/Sub accepts only these answers as an acknowledgement.
    assert response.status_code not in {102, 200, 201, 202, 204}
    assert [entry["event"] for entry in book.entries if "event" in entry] == [event]
    assert response.headers.get("retry-after") == ("1" if status == 429 else None)


async def test_a_push_that_its_sender_aborts_is_no_unexpected_error() -> None:
    handler = RecordingHandler()
    received: Iterator[MutableMapping[str, Any]] = iter(
        [
            {"type": "http.request", "body": BODY[:10], "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return next(received)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    with log_book() as book:
        await push_app(NoTokenNeeded(), handler)(scope, receive, send)

    assert [entry["event"] for entry in book.entries if "event" in entry] == ["nacked"]
    assert not any("stack_trace" in entry for entry in book.entries)
    assert (handler.messages, sent[0]["status"]) == ([], 503)


def google_verifier(issuer: Issuer, *, may_be_unsigned: bool = False) -> GoogleTokenVerifier:
    cache = CertificateCache(CertificateServer(issuer).fetch)
    return GoogleTokenVerifier(cache, AUDIENCE, EMAIL, may_be_unsigned)


async def test_a_push_without_permission_does_not_reach_the_handler() -> None:
    issuer, handler = Issuer(), RecordingHandler()
    app = push_app(google_verifier(issuer), handler)

    refused = await post(app, BODY)
    wrong = await post(app, BODY, Authorization=f"Bearer {issuer.sign(push_claims(aud='x'))}")
    assert (refused.status_code, wrong.status_code, handler.messages) == (401, 401, [])
    assert "x" not in refused.text.split()

    right = await post(app, BODY, Authorization=f"Bearer {issuer.sign(push_claims())}")
    assert (right.status_code, len(handler.messages)) == (204, 1)


async def test_a_push_whose_authorization_nobody_has_checked_does_not_reach_the_handler() -> None:
    issuer, handler = Issuer(), RecordingHandler()
    head, body, _ = issuer.sign(push_claims()).split(".")
    stripped = f"Bearer {head}.{body}.SIGNATURE_REMOVED_BY_GOOGLE"
    app = push_app(google_verifier(issuer, may_be_unsigned=True), handler)

    # Cloud Run has checked the other header, which another caller may have sent.
    checked = {"X-Serverless-Authorization": "Bearer a.b.SIGNATURE_REMOVED_BY_GOOGLE"}
    forged = await post(app, BODY, Authorization=stripped, **checked)
    assert (forged.status_code, handler.messages) == (401, [])

    right = await post(app, BODY, Authorization=stripped)
    assert (right.status_code, len(handler.messages)) == (204, 1)


async def test_a_push_that_cannot_be_checked_now_is_redelivered() -> None:
    class UnreachableCertificates:
        async def verify(self, authorization: str | None) -> Mapping[str, Any]:
            raise CertificatesUnavailableError(str(authorization))

    handler = RecordingHandler()

    response = await post(push_app(UnreachableCertificates(), handler), BODY)

    assert (response.status_code, handler.messages) == (503, [])


async def test_a_malformed_push_is_not_acknowledged_and_the_largest_is_still_read() -> None:
    handler = RecordingHandler()
    app = push_app(NoTokenNeeded(), handler)
    padding = LARGEST_BODY - len(json.dumps({"message": {"attributes": {"a": ""}}}))
    largest = json.dumps({"message": {"attributes": {"a": "x" * padding}}}).encode()

    refused = [(await post(app, body)).status_code for body in (b"", b"{}", largest + b" ")]

    assert (refused, handler.messages) == ([422] * 3, [])
    assert (await post(app, largest)).status_code == 204


async def test_probes_are_answered_and_other_methods_are_not() -> None:
    transport = httpx.ASGITransport(push_app(NoTokenNeeded(), RecordingHandler()))
    async with httpx.AsyncClient(transport=transport, base_url="http://push.test") as client:
        assert (await client.get("/healthz")).status_code == 204
        assert (await client.get("/")).status_code == 405
