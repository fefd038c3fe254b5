"""Traces: every deployable adds its steps to the one trace of a voice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import google.auth
import pytest
from google.oauth2.credentials import Credentials
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from functions.on_upload.settings import OnUploadSettings
from shared.ports import NO_TRACES
from shared.runtime import settings, traces
from shared.runtime.logs import pseudonym
from shared.runtime.traces import SpanTraces, open_traces
from shared.voices.voice import new_voice_id
from tests.support.http_server import Answer, Asked, serving

if TYPE_CHECKING:
    from pathlib import Path

KEY = "a key of thirty-two characters..."


def settings_with(**values: Any) -> OnUploadSettings:
    return settings.load(
        OnUploadSettings,
        **{
            "project_id": "p",
            "environment": "local",
            "log_key": KEY,
            "uploads_bucket": "uploads",
            "conversions_topic": "conversions",
            "push_verification": "platform",
            "push_audience": "https://here",
            "push_service_account": "push@p",
        }
        | values,
    )


def opened(path: Path, deployable: str = "api", **values: Any) -> SpanTraces:
    traces = open_traces(settings_with(traces=str(path), **values), deployable)
    assert isinstance(traces, SpanTraces)
    return traces


def spans_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_steps_of_every_deployable_are_in_the_one_trace_of_the_voice(tmp_path: Path) -> None:
    path, voice_id = tmp_path / "traces", new_voice_id()

    opened(path).add(voice_id, "voice", 1.0, 2.0, facts={"character": "hina"}, is_first=True)
    with opened(path, "convert").step(voice_id, "attempt"):
        opened(path, "convert").add(voice_id, "network", 3.0, 4.5)

    first, network, attempt = spans_in(path)
    trace = {span["context"]["trace_id"] for span in (first, network, attempt)}
    assert trace == {f"0x{pseudonym(voice_id, KEY)}"}
    assert first["parent_id"] is None
    assert first["attributes"] == {"character": "hina"}
    assert attempt["parent_id"] == first["context"]["span_id"]
    assert network["parent_id"] == attempt["context"]["span_id"]
    assert network["start_time"] == "1970-01-01T00:00:03.000000Z"
    assert network["end_time"] == "1970-01-01T00:00:04.500000Z"
    services = [span["resource"]["attributes"]["service.name"] for span in (first, network)]
    assert services == ["api", "convert"]


def test_a_step_inside_the_step_of_another_voice_stays_in_its_own_trace(tmp_path: Path) -> None:
    path, voice_id, other_id = tmp_path / "traces", new_voice_id(), new_voice_id()
    traces = opened(path)

    with traces.step(other_id, "attempt"):
        traces.add(voice_id, "wait", 1.0, 2.0)

    wait = spans_in(path)[0]
    trace = pseudonym(voice_id, KEY)
    assert wait["context"]["trace_id"] == f"0x{trace}"
    assert wait["parent_id"] == f"0x{trace[:16]}"


def test_a_step_that_an_error_leaves_has_failed_and_names_no_voice_id(tmp_path: Path) -> None:
    path, voice_id = tmp_path / "traces", new_voice_id()

    with pytest.raises(LookupError), opened(path).step(voice_id, "attempt"):
        raise LookupError("gone")

    (span,) = spans_in(path)
    assert span["status"] == {"status_code": "ERROR", "description": "LookupError"}
    assert voice_id not in path.read_text()
    assert voice_id.replace("-", "") not in path.read_text()


def test_a_step_without_a_readable_begin_is_left_out_and_none_ends_before_it_began(
    tmp_path: Path,
) -> None:
    traces, voice_id = opened(tmp_path / "traces"), new_voice_id()

    traces.add(voice_id, "delivery", "")
    traces.add(voice_id, "delivery", "yesterday")
    traces.add(voice_id, "delivery", "2026-03-04T05:06:07Z", 1772600768.0)
    traces.add(voice_id, "delivery", "2026-03-04T05:06:07Z", 1772600766.0)

    begin, end = "2026-03-04T05:06:07.000000Z", "2026-03-04T05:06:08.000000Z"
    times = [(span["start_time"], span["end_time"]) for span in spans_in(tmp_path / "traces")]
    assert times == [(begin, end), (begin, begin)]


def test_all_deployables_trace_the_same_share_of_the_voices(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    voices = [new_voice_id() for _ in range(100)]

    for voice_id in voices:
        opened(one, "api", trace_ratio=0.25).add(voice_id, "voice", 1.0, 2.0)
        opened(other, "convert", trace_ratio=0.25).add(voice_id, "attempt", 1.0, 2.0)

    traced = [{span["context"]["trace_id"] for span in spans_in(path)} for path in (one, other)]
    assert traced[0] == traced[1]
    assert 5 < len(traced[0]) < 60


@pytest.mark.parametrize("is_google", [False, True])
def test_a_collector_is_sent_the_steps_in_otlp_and_cloud_trace_our_own_credentials_too(
    monkeypatch: pytest.MonkeyPatch, *, is_google: bool
) -> None:
    asked: list[list[str]] = []
    received: list[Asked] = []

    def collect(request: Asked) -> Answer:
        received.append(request)
        return Answer(b"")

    def default(scopes: list[str]) -> tuple[Credentials, str]:
        asked.append(scopes)
        return Credentials("token"), "p"

    monkeypatch.setattr(google.auth, "default", default)
    with serving(collect) as server:
        address = f"{server}/v1/traces"
        monkeypatch.setattr(traces, "GOOGLE_ENDPOINT", address)
        where = "google" if is_google else address
        opened = open_traces(settings_with(traces=where, environment="production"), "on_upload")
        assert isinstance(opened, SpanTraces)
        opened.add(new_voice_id(), "publish", 1.0, 2.0)
        opened.provider.shutdown()

    (taken,) = received
    request = ExportTraceServiceRequest()
    request.ParseFromString(taken.body)  # type: ignore[no-untyped-call]  # it comes without types
    (spans,) = request.resource_spans
    authorization = "Bearer token" if is_google else None
    assert (taken.path, taken.headers["Authorization"]) == ("/v1/traces", authorization)
    assert {each.key: each.value.string_value for each in spans.resource.attributes} == {
        "service.name": "on_upload",
        "gcp.project_id": "p",
    }
    assert [span.name for span in spans.scope_spans[0].spans] == ["publish"]
    scopes = ["https://www.googleapis.com/auth/trace.append"]
    assert asked == ([scopes] if is_google else [])


def test_without_the_setting_there_are_no_traces_and_in_production_they_go_into_no_file() -> None:
    assert open_traces(settings_with(), "api") is NO_TRACES
    with pytest.raises(settings.SettingsError, match="TRACES=a_file is only for the local cloud"):
        settings_with(traces="a_file", environment="production")
