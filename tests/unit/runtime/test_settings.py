from __future__ import annotations

import os
from typing import TypeVar

import pytest

from functions.api.settings import ApiSettings
from functions.convert.settings import ConvertSettings
from functions.dead_letter.settings import DeadLetterSettings
from functions.live.settings import LiveSettings
from functions.on_upload.settings import OnUploadSettings
from shared.runtime import settings
from shared.runtime.logs import LOCAL_KEY
from shared.runtime.settings import (
    CommonSettings,
    Environment,
    EnvironmentSettings,
    PushVerification,
    SecretKeys,
    SettingsError,
    Switch,
    Timeouts,
)
from shared.speech.results.watermark_engines import open_marker
from shared.voices.voice import LONGEST_LEASE

COMMON = {"PROJECT_ID": "my-project", "UPLOADS_BUCKET": "my-uploads", "LOG_KEY": "k" * 32}
PUSH = COMMON | {
    "PUSH_AUDIENCE": "https://push.example",
    "PUSH_SERVICE_ACCOUNT": "pusher@my-project.iam.gserviceaccount.com",
}
SIGNING = {
    "RESULTS_BUCKET": "my-results",
    "SIGNING_SERVICE_ACCOUNT": "signer@my-project.iam.gserviceaccount.com",
}
COMPLETE: dict[type[CommonSettings], dict[str, str]] = {
    ApiSettings: COMMON
    | SIGNING
    | {"CONVERT_URL": "https://convert.example/", "CONVERSIONS_TOPIC": "conversions"},
    OnUploadSettings: PUSH | {"CONVERSIONS_TOPIC": "conversions"},
    ConvertSettings: PUSH | SIGNING,
    LiveSettings: COMMON | SIGNING | {"LIVE_TICKET_KEYS": "k" * 32},
    DeadLetterSettings: PUSH | {"RESULTS_BUCKET": "my-results", "CONVERSIONS_TOPIC": "conversions"},
}
KINDS = list(COMPLETE)


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        monkeypatch.delenv(name)


Kind = TypeVar("Kind", bound=CommonSettings)


def loaded(monkeypatch: pytest.MonkeyPatch, kind: type[Kind], **changes: str) -> Kind:
    for name, value in (COMPLETE[kind] | changes).items():
        monkeypatch.setenv(name, value)
    return settings.load(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_necessary_variables_are_enough(
    monkeypatch: pytest.MonkeyPatch, kind: type[CommonSettings]
) -> None:
    found = loaded(monkeypatch, kind)

    assert (found.project_id, found.uploads_bucket) == ("my-project", "my-uploads")
    assert (found.environment, found.log_level) == (Environment.PRODUCTION, "INFO")
    assert (found.timeouts.conversion_deadline, found.timeouts.request) == (60, 85)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: type[CommonSettings]
) -> None:
    loaded(monkeypatch, kind)
    for name, value in COMPLETE[kind].items():
        monkeypatch.delenv(name)
        with pytest.raises(SettingsError, match=name):
            settings.load(kind)
        monkeypatch.setenv(name, value)


def test_only_the_wrong_variable_is_named_and_not_those_whose_defaults_follow_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(monkeypatch, ConvertSettings, BACKLOG="1001")

    (line,) = str(caught.value).splitlines()
    assert line == "BACKLOG='1001' is wrong: Input should be less than or equal to 1000"


def test_all_wrong_variables_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        settings.load(ApiSettings)

    assert str(caught.value).splitlines() == [
        "PROJECT_ID is not set",
        "UPLOADS_BUCKET is not set",
        "RESULTS_BUCKET is not set",
        "CONVERT_URL is not set",
        "CONVERSIONS_TOPIC is not set",
    ]


WRONG: dict[type[CommonSettings], list[str]] = {
    OnUploadSettings: [
        *("PROJECT_ID=", "ENVIRONMENT=staging", "LOG_LEVEL=info", "UPLOADS_BUCKET=gs://uploads"),
        *("CONVERSION_DEADLINE_SECONDS=4", "CONVERSION_DEADLINE_SECONDS=501"),
        *("PUSH_VERIFICATION=maybe", "PUSH_AUDIENCE=", "PUSH_SERVICE_ACCOUNT=pusher"),
        "CONVERSIONS_TOPIC=projects/p/topics/conversions",
    ],
    ConvertSettings: [
        *("RESULTS_BUCKET=_", "SIGNING_SERVICE_ACCOUNT=signer", "MIN_SECONDS=0"),
        *("MIN_SECONDS=10.5", "MAX_SECONDS=0.9", "MAX_UPLOAD_BYTES=8 MB", "CONCURRENCY=0"),
        *("RESULT_URL_SECONDS=59", "RESULT_URL_SECONDS=604801"),
    ],
    ApiSettings: [
        *("CONVERT_URL=convert.example", "WAIT_SECONDS=0", "RATE_LIMIT_PER_MINUTE=-1"),
        *("TRUSTED_PROXIES=all", "UPLOAD_URL_SECONDS=29", "UPLOAD_URL_SECONDS=3601"),
        *("FIREBASE_AUTH=perhaps", "PAGE_CONFIG={"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "wrong"), [(kind, each) for kind, wrong in WRONG.items() for each in wrong]
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, kind: type[CommonSettings], wrong: str
) -> None:
    name, _, value = wrong.partition("=")
    with pytest.raises(SettingsError, match=name):
        loaded(monkeypatch, kind, **{name: value})


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ConvertSettings, "PUSH_VERIFICATION", "off"),
        (ConvertSettings, "SIGNING_KEY_FILE", "/key.json"),
        (ApiSettings, "WEB_ROOT", "/page"),
        (ApiSettings, "PAGE_CONFIG", "{}"),
    ],
)
def test_settings_for_the_local_cloud_are_accepted_only_there(
    monkeypatch: pytest.MonkeyPatch, kind: type[CommonSettings], name: str, value: str
) -> None:
    found = loaded(monkeypatch, kind, **{name: value, "ENVIRONMENT": "local"})
    assert found.environment is Environment.LOCAL

    with pytest.raises(SettingsError, match="only for the local cloud"):
        loaded(monkeypatch, kind, **{name: value, "ENVIRONMENT": "production"})


def test_a_local_push_needs_neither_audience_nor_account(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"RESULTS_BUCKET": "my-results", "CONVERSIONS_TOPIC": "conversions"}
    local = {"ENVIRONMENT": "local", "PUSH_VERIFICATION": "off"}
    for name, value in (COMMON | needed | local).items():
        monkeypatch.setenv(name, value)

    assert settings.load(DeadLetterSettings).push_verification is PushVerification.OFF


def test_lists_and_addresses_are_read_as_a_person_writes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = loaded(
        monkeypatch,
        ApiSettings,
        ALLOWED_ORIGINS=" https://a.example, https://b.example ,",
        CONVERT_URL="https://convert.example/",
        FIREBASE_AUTH="on",
    )

    assert found.allowed_origins == ("https://a.example", "https://b.example")
    assert found.convert_url == "https://convert.example"
    assert found.firebase_auth is Switch.ON


@pytest.mark.parametrize(
    ("kind", "alone"),
    [
        (ConvertSettings, {"SIGNING_HMAC_ACCESS_ID": "GOOG1EXAMPLEEXAMPLEEXAMPLE"}),
        (ConvertSettings, {"SIGNING_HMAC_SECRET": "GOOG1EXAMPLEEXAMPLEEXAMPLE"}),
        (ApiSettings, {"LIVE_URL": "wss://live.example/live"}),
        (ApiSettings, {"LIVE_TICKET_KEYS": "k" * 32}),
    ],
)
def test_a_key_and_its_name_or_address_come_together(
    monkeypatch: pytest.MonkeyPatch, kind: type[CommonSettings], alone: dict[str, str]
) -> None:
    with pytest.raises(SettingsError, match="must be set both or neither"):
        loaded(monkeypatch, kind, **alone)


def test_an_hmac_key_takes_the_place_of_the_signing_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded(monkeypatch, ConvertSettings)
    monkeypatch.delenv("SIGNING_SERVICE_ACCOUNT")
    monkeypatch.setenv("SIGNING_HMAC_ACCESS_ID", "GOOG1EXAMPLEEXAMPLEEXAMPLE")
    monkeypatch.setenv("SIGNING_HMAC_SECRET", "made up, forty characters long or so")

    found = settings.load(ConvertSettings)

    assert found.signing_hmac_access_id == "GOOG1EXAMPLEEXAMPLEEXAMPLE"
    assert "made up" not in repr(found)


def test_the_local_cloud_needs_no_key_for_its_logs_and_production_takes_no_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match="LOG_KEY") as refusal:
        loaded(monkeypatch, DeadLetterSettings, LOG_KEY="too short")
    assert "too short" not in str(refusal.value)
    monkeypatch.delenv("LOG_KEY")
    monkeypatch.setenv("ENVIRONMENT", "local")

    assert settings.load(DeadLetterSettings).pseudonym_key == LOCAL_KEY


def test_the_keys_of_tickets_are_separated_by_commas_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = loaded(monkeypatch, LiveSettings, LIVE_TICKET_KEYS=f"{'new-' * 8}, {'old-' * 8}")

    assert [key.get_secret_value() for key in found.live_ticket_keys] == ["new-" * 8, "old-" * 8]
    assert "new-" not in repr(found)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("LIVE_TICKET_KEYS", ""),
        ("LIVE_TICKET_KEYS", "too-short"),
        ("LIVE_TICKET_KEYS", f"{'k' * 32},too-short"),
        ("WATERMARK_KEYS", "too-short"),
    ],
)
def test_a_missing_or_short_key_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, keys: str
) -> None:
    with pytest.raises(SettingsError, match=name) as refusal:
        loaded(monkeypatch, LiveSettings, **{name: keys})

    assert "k" * 32 not in str(refusal.value)
    assert "too-short" not in str(refusal.value)


def test_the_bits_of_the_watermark_are_read_and_wrong_ones_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"WATERMARK_KEYS": "k" * 32, "WATERMARK_BITS": "513"}
    found = loaded(monkeypatch, LiveSettings, **settings, WATERMARK_CHARACTER_BITS="mei=7, ned=8")
    marker = open_marker(found)

    assert marker is not None
    assert (marker.payload, marker.payloads) == (513, {"mei": 7, "ned": 8})
    for wrong in ("mei", "mei=65536", "=3"):
        with pytest.raises(SettingsError, match="CHARACTER=NUMBER"):
            loaded(monkeypatch, LiveSettings, WATERMARK_CHARACTER_BITS=wrong)
    with pytest.raises(SettingsError, match="WATERMARK_BITS"):
        loaded(monkeypatch, LiveSettings, WATERMARK_BITS="65536")
    settings = {"WATERMARK_KEYS": "", "WATERMARK_BITS": "1", "WATERMARK_CHARACTER_BITS": ""}
    assert open_marker(loaded(monkeypatch, LiveSettings, **settings)) is None


def test_a_list_of_secrets_can_come_in_a_variable_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    class Keys(EnvironmentSettings):
        keys: SecretKeys = ()

    for name, key in {"KEYS": "a", "KEYS_1": "b", "KEYS_2": "c", "KEYS_4": "e"}.items():
        monkeypatch.setenv(name, key * 32)

    assert [each.get_secret_value()[0] for each in Keys().keys] == ["a", "b", "c"]


@pytest.mark.parametrize("deadline", [5, 60, 500])
def test_each_timeout_leaves_room_for_the_one_before(deadline: int) -> None:
    timeouts = Timeouts(deadline)

    assert timeouts.conversion_deadline < timeouts.request <= timeouts.acknowledgement
    assert 10 <= timeouts.acknowledgement <= 600
    # A request has time to wait for a dead worker's lease.
    assert timeouts.request - deadline > LONGEST_LEASE.total_seconds()
