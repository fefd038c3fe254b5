from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import requests
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from shared.google.trainer import TrainerStart, TrainerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "/v2/projects/p/locations/europe-west1/jobs/voice-avatar-train:run"


class Jobs:
    """Answers as the API of Cloud Run does: it lets in whoever has the token."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        asked = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append((self.path, body))
                allowed = self.headers.get("Authorization") == "Bearer the token"
                answer = b'{"name": "projects/p/locations/europe-west1/operations/1"}'
                self.send_response(200 if allowed else 403)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}{RUN}"


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    jobs = Jobs()
    serving = threading.Thread(target=jobs.server.serve_forever)
    serving.start()
    yield jobs
    jobs.server.shutdown()
    jobs.server.server_close()
    serving.join()


def session(token: str) -> AuthorizedSession:
    return AuthorizedSession(Credentials(token))


async def test_a_job_is_run_with_the_identity_of_the_account_and_without_overrides(
    jobs: Jobs,
) -> None:
    with session("the token") as known:
        await TrainerStart(known, jobs.url)()
    assert jobs.requests == [(RUN, {})]


async def test_a_job_that_may_not_be_run_is_an_error_that_passes(jobs: Jobs) -> None:
    with session("another") as stranger, pytest.raises(TrainerUnavailableError, match="403"):
        await TrainerStart(stranger, jobs.url)()


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
