from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from functions.convert.settings import ConvertSettings
from infra.local.configuration.keys import make_key
from shared.google import clients
from shared.google.sharded_bucket import ShardedBucket
from shared.google.signatures import HmacSigner
from shared.google.storage import Signer
from shared.google.tokens import GoogleTokenVerifier
from shared.ports import NoTokenNeeded

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def a_config(**changes: Any) -> ConvertSettings:
    fields = {
        "project_id": "p",
        "environment": "local",
        "uploads_bucket": "my-uploads",
        "results_bucket": "my-results",
        "push_verification": "off",
        "signing_key_file": "/key.json",
    }
    return ConvertSettings(**(fields | changes))


def a_production_config() -> ConvertSettings:
    return a_config(
        environment="production",
        push_verification="on",
        push_audience="https://push.example",
        push_service_account="pusher@p.example",
        log_key="k" * 32,
        signing_key_file=None,
        signing_service_account="signer@p.example",
    )


def test_the_local_cloud_pushes_without_tokens_and_production_does_not() -> None:
    assert isinstance(clients.open_push_verifier(a_config()), NoTokenNeeded)
    assert isinstance(clients.open_push_verifier(a_production_config()), GoogleTokenVerifier)


def test_the_trainer_is_started_with_the_identity_of_the_account_and_locally_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def default(scopes: list[str]) -> tuple[Credentials, str]:
        asked.append(scopes)
        return Credentials("the token"), "p"

    monkeypatch.setattr("google.auth.default", default)

    local = clients.open_trainer(a_config(), "http://127.0.0.1:1")
    assert not asked
    deployed = clients.open_trainer(a_production_config(), "https://run.example/jobs/train:run")

    assert type(local.session) is requests.Session
    assert isinstance(deployed.session, AuthorizedSession)
    assert asked == [["https://www.googleapis.com/auth/cloud-platform"]]


def test_the_recordings_of_own_characters_are_in_one_bucket_however_many_shards_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    config = a_config(upload_shards=4)

    assert clients.open_single_bucket(config, "my-own-recordings").name == "my-own-recordings"
    assert isinstance(clients.open_bucket(config, "my-uploads"), ShardedBucket)


def test_an_hmac_key_signs_by_itself() -> None:
    signer = clients.open_signer(
        a_config(
            signing_key_file=None,
            signing_hmac_access_id="GOOG1EXAMPLEEXAMPLEEXAMPLE",
            signing_hmac_secret="made up, forty characters long or so",
        )
    )

    assert isinstance(signer, HmacSigner)
    assert signer.access_id == "GOOG1EXAMPLEEXAMPLEEXAMPLE"
    assert signer.secret == "made up, forty characters long or so"


def test_without_a_key_the_machines_own_account_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key()
    key.write(tmp_path / "account.json")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))

    signer = clients.open_signer(
        a_config(signing_key_file=None, signing_service_account="signer@p.example")
    )

    assert isinstance(signer, Signer)
    assert signer.service_account == "signer@p.example"
