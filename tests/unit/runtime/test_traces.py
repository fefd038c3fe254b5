"""Traces: every deployable adds its steps to the one trace of a voice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


def test_no_trace_contains_a_voice_id(tmp_path: Path) -> None:
    path, voice_id = tmp_path / "traces", new_voice_id()

    with opened(path).step(voice_id, "attempt"):
        pass

    assert voice_id not in path.read_text()
    assert voice_id.replace("-", "") not in path.read_text()


def test_a_step_that_an_error_leaves_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "traces"

    with pytest.raises(LookupError), opened(path).step(new_voice_id(), "attempt"):
        raise LookupError("gone")

    (span,) = spans_in(path)
    assert span["status"] == {"status_code": "ERROR", "description": "LookupError"}


@pytest.mark.parametrize("moment", ["", "yesterday"])
def test_a_step_whose_begin_cannot_be_read_is_left_out(tmp_path: Path, moment: str) -> None:
    traces, voice_id = opened(tmp_path / "traces"), new_voice_id()

    traces.add(voice_id, "delivery", moment)
    traces.add(voice_id, "delivery", "2026-03-04T05:06:07Z", 1772600768.0)

    (span,) = spans_in(tmp_path / "traces")
    assert (span["start_time"], span["end_time"]) == (
        "2026-03-04T05:06:07.000000Z",
        "2026-03-04T05:06:08.000000Z",
    )


def test_a_step_never_ends_before_it_began_whatever_the_clocks_say(tmp_path: Path) -> None:
    opened(tmp_path / "traces").add(new_voice_id(), "delivery", 5.0, 4.0)

    (span,) = spans_in(tmp_path / "traces")
    assert span["end_time"] == span["start_time"]


def test_all_deployables_trace_the_same_share_of_the_voices(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    voices = [new_voice_id() for _ in range(400)]

    for voice_id in voices:
        opened(one, "api", trace_ratio=0.25).add(voice_id, "voice", 1.0, 2.0)
        opened(other, "convert", trace_ratio=0.25).add(voice_id, "attempt", 1.0, 2.0)

    traced = [{span["context"]["trace_id"] for span in spans_in(path)} for path in (one, other)]
    assert traced[0] == traced[1]
    assert 50 < len(traced[0]) < 150


class Taken(NamedTuple):
    """One request that a collector was sent."""

    path: str
    authorization: str | None
    quota_project: str | None
    request: ExportTraceServiceRequest

    @property
    def names(self) -> list[str]:
        """The names of the steps."""
        (spans,) = self.request.resource_spans
        return [span.name for span in spans.scope_spans[0].spans]


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP from everybody but some."""

    taken: list[Taken]
    refused: ClassVar = {"Bearer expired": 401, "Bearer of somebody else": 403}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)  # type: ignore[no-untyped-call]  # it comes without types
        authorization = self.headers["Authorization"]
        quota_project = self.headers["x-goog-user-project"]
        self.taken.append(Taken(self.path, authorization, quota_project, request))
        self.send_response(self.refused.get(authorization, 200))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Taken]]]:
    taken: list[Taken] = []
    handler = type("Taking", (Collector,), {"taken": taken})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", taken
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_collector_is_sent_the_steps_in_otlp(collector: tuple[str, list[Taken]]) -> None:
    address, taken = collector
    traces = open_traces(settings_with(traces=address, environment="production"), "on_upload")
    assert isinstance(traces, SpanTraces)

    traces.add(new_voice_id(), "publish", 1.0, 2.0)
    traces.provider.shutdown()

    (one,) = taken
    (spans,) = one.request.resource_spans
    assert (one.path, one.authorization) == ("/v1/traces", None)
    assert {each.key: each.value.string_value for each in spans.resource.attributes} == {
        "service.name": "on_upload",
        "gcp.project_id": "p",
    }
    assert one.names == ["publish"]


Grant: TypeAlias = "Callable[[Credentials], list[list[str]]]"


@pytest.fixture
def grant(collector: tuple[str, list[Taken]], monkeypatch: pytest.MonkeyPatch) -> Grant:
    """Let the collector be Cloud Trace, and a deployable have credentials.

    Returns a function that takes the credentials and returns the scopes that are asked for.
    """

    def have(credentials: Credentials) -> list[list[str]]:
        asked: list[list[str]] = []

        def default(scopes: list[str]) -> tuple[Credentials, str]:
            asked.append(scopes)
            return credentials, "p"

        monkeypatch.setattr(google.auth, "default", default)
        return asked

    monkeypatch.setattr(traces, "GOOGLE_ENDPOINT", collector[0])
    return have


def send_a_step_to_cloud_trace() -> None:
    traces = open_traces(settings_with(traces="google", environment="production"), "api")
    assert isinstance(traces, SpanTraces)
    traces.add(new_voice_id(), "voice", 1.0, 2.0, is_first=True)
    traces.provider.shutdown()


def test_cloud_trace_is_sent_the_steps_with_the_deployables_own_credentials(
    collector: tuple[str, list[Taken]], grant: Grant
) -> None:
    asked = grant(Credentials("token"))

    send_a_step_to_cloud_trace()

    (one,) = collector[1]
    # Without a project to count on, Google counts on the one of the service account: naming it
    # would need a further role.
    assert (one.authorization, one.quota_project) == ("Bearer token", None)
    assert one.names == ["voice"]
    assert asked == [["https://www.googleapis.com/auth/trace.append"]]


def test_credentials_that_name_a_project_to_count_on_tell_it_to_cloud_trace(
    collector: tuple[str, list[Taken]], grant: Grant
) -> None:
    grant(Credentials("token", quota_project_id="payer"))

    send_a_step_to_cloud_trace()

    assert [one.quota_project for one in collector[1]] == ["payer"]


def test_a_token_that_has_expired_is_renewed_and_the_steps_are_sent_again(
    collector: tuple[str, list[Taken]], grant: Grant
) -> None:
    class Renewed(Credentials):
        def refresh(self, _request: object) -> None:
            self.token = "fresh"

    grant(Renewed("expired"))  # type: ignore[no-untyped-call]  # the library is untyped

    send_a_step_to_cloud_trace()

    sent = [(one.authorization, one.names) for one in collector[1]]
    assert sent == [("Bearer expired", ["voice"]), ("Bearer fresh", ["voice"])]


def test_steps_that_cloud_trace_refuses_are_said_in_the_log_and_nobody_waits_for_them(
    collector: tuple[str, list[Taken]], grant: Grant, caplog: pytest.LogCaptureFixture
) -> None:
    grant(Credentials("of somebody else"))

    send_a_step_to_cloud_trace()

    assert [one.names for one in collector[1]] == [["voice"]]
    assert "403" in caplog.text


def test_in_production_traces_go_into_no_file() -> None:
    with pytest.raises(settings.SettingsError, match="TRACES=a_file is only for the local cloud"):
        settings_with(traces="a_file", environment="production")


def test_without_the_setting_there_are_no_traces() -> None:
    assert open_traces(settings_with(), "api") is NO_TRACES


@pytest.mark.parametrize(
    ("deployable", "package"),
    [
        ("convert", "opentelemetry"),
        ("live", "opentelemetry"),
        ("on_upload", "opentelemetry"),
        # FastAPI itself imports the interface.
        ("api", "opentelemetry.sdk"),
        ("api", "opentelemetry.exporter"),
    ],
)
def test_without_traces_a_deployable_does_not_import_opentelemetry(
    deployable: str, package: str
) -> None:
    names = f"[name for name in sys.modules if name.startswith({package!r})]"
    code = f"import sys, functions.{deployable}.main; print({names})"

    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert answer.stdout.strip() == "[]"
