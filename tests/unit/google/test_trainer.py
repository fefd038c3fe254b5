from __future__ import annotations

import json

import pytest
import requests
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from shared.google.trainer import TrainerStart, TrainerUnavailableError
from tests.support.http_server import Answer, Asked, serving

RUN = "/v2/projects/p/locations/europe-west1/jobs/voice-avatar-train:run"


def run(asked: Asked) -> Answer:
    """Answer as the API of Cloud Run does: it lets in whoever has the token."""
    assert (asked.path, json.loads(asked.body)) == (RUN, {})
    return Answer(b"{}", 200 if asked.headers["Authorization"] == "Bearer the token" else 403)


def session(token: str) -> AuthorizedSession:
    return AuthorizedSession(Credentials(token))


async def test_a_job_is_run_with_the_identity_of_an_account_that_may_run_it() -> None:
    with serving(run) as address:
        with session("the token") as known:
            await TrainerStart(known, address + RUN)()
        with session("another") as stranger, pytest.raises(TrainerUnavailableError, match="403"):
            await TrainerStart(stranger, address + RUN)()


async def test_an_api_that_cannot_be_reached_is_an_error_that_passes() -> None:
    with requests.Session() as anybody, pytest.raises(TrainerUnavailableError, match="refused"):
        await TrainerStart(anybody, "http://127.0.0.1:1/")()


async def test_an_identity_that_cannot_be_had_is_an_error_that_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def post(*_arguments: object, **_options: object) -> None:
        raise RefreshError("no metadata server")

    broken = session("x")
    monkeypatch.setattr(broken, "post", post)
    with pytest.raises(TrainerUnavailableError, match="no metadata"):
        await TrainerStart(broken, "http://127.0.0.1:1/")()
