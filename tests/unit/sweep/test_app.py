from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from functions.sweep.main import create_app
from functions.sweep.sweeper import Patience, Sweeper
from infra.local.cloud.memory import MemoryVoices
from shared.google.tokens import CertificateCache, GoogleTokenVerifier
from shared.voices.store import FoundVoices, StoreUnavailableError
from tests.support.buckets import MemoryBucket
from tests.support.logs import log_book
from tests.support.messages import RecordingPublisher
from tests.support.tokens import AUDIENCE, EMAIL, CertificateServer, Issuer, push_claims, unsigned
from tests.support.voices import a_queued

if TYPE_CHECKING:
    from shared.voices.voice import Status

ISSUER = Issuer()


def client(topic: RecordingPublisher, voices: MemoryVoices) -> httpx.AsyncClient:
    sweeper = Sweeper(
        voices=voices,
        uploads=MemoryBucket("uploads"),
        conversions=topic,
        patience=Patience(timedelta(minutes=5), timedelta(minutes=10)),
        now=lambda: datetime.now(UTC),
    )
    certificates = CertificateCache(CertificateServer(ISSUER).fetch)
    verifier = GoogleTokenVerifier(certificates, audience=AUDIENCE, email=EMAIL)
    transport = httpx.ASGITransport(create_app(sweeper, verifier))
    return httpx.AsyncClient(transport=transport, base_url="https://sweep.example")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


TIMER = bearer(ISSUER.sign(push_claims()))


async def test_only_the_scheduler_starts_a_sweep_and_gets_its_counts() -> None:
    voices, topic = MemoryVoices(), RecordingPublisher()
    await voices.create(a_queued())
    strangers = [
        {},
        TIMER | {"X-Serverless-Authorization": "Bearer a.b.c"},
        bearer(unsigned(push_claims())),
        bearer(ISSUER.sign(push_claims(email="other@project.iam.gserviceaccount.com"))),
        bearer(ISSUER.sign(push_claims(aud="https://other.example"))),
        bearer(Issuer().sign(push_claims())),
    ]

    async with client(topic, voices) as http:
        refused = [await http.post("/", headers=headers) for headers in strangers]
        assert topic.published == []
        topic.failures_left = 1
        incomplete = await http.post("/", headers=TIMER)
        answer = await http.post("/", headers=TIMER)

    assert {each.status_code for each in refused} == {401}
    assert incomplete.status_code == 503
    assert (answer.status_code, answer.json()) == (200, {"put_back": 1, "expire": 0})
    assert len(topic.published) == 1


class UnsearchableVoices(MemoryVoices):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def find_unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> FoundVoices:
        del status, since, limit, after
        raise self._error


@pytest.mark.parametrize(
    ("error", "status", "event"),
    [
        (StoreUnavailableError("the index is missing"), 503, "sweep_incomplete"),
        (RuntimeError("the index is missing"), 500, "unexpected_error"),
    ],
)
async def test_a_sweep_without_its_index_says_why_and_keeps_running(
    error: Exception, status: int, event: str
) -> None:
    with log_book() as book:
        async with client(RecordingPublisher(), UnsearchableVoices(error)) as http:
            answer = await http.post("/", headers=TIMER)
            probe = await http.get("/healthz")

    assert (answer.status_code, probe.status_code) == (status, 204)
    (entry,) = book.of(event)
    assert "the index is missing" in entry["message"] + entry.get("stack_trace", "")
    assert "index" not in answer.text
