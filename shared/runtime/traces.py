"""Traces as OpenTelemetry's spans: to Cloud Trace, to a collector, or into a file.

Cloud Storage's notifications carry no context of a trace, and a message may be lost and published
again by another deployable. So none is handed on: the trace of a voice is its pseudonym in the
logs, which every deployable can compute, and its first step has the first half of that as its id.
"""
# ruff: noqa: PLC0415 - OpenTelemetry is imported only where there are traces

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from shared.ports import NO_TRACES, TraceStep
from shared.runtime.logs import pseudonym

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import Span

    from shared.ports import Fact, Traces
    from shared.runtime.settings import CommonSettings

GOOGLE: Final = "google"  # the setting that sends traces to Cloud Trace
# https://docs.cloud.google.com/stackdriver/docs/reference/telemetry/v1.traces.post
GOOGLE_ENDPOINT: Final = "https://telemetry.googleapis.com/v1/traces"
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/trace.append"
EXPORT_SECONDS: Final = 10.0  # to send a batch of steps; only the end of the process waits for it

# The trace whose first step is being made.
_BEGUN_TRACE: ContextVar[int] = ContextVar("begun_trace", default=0)


def open_traces(settings: CommonSettings, deployable: str) -> Traces:
    if settings.traces is None:
        return NO_TRACES
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    resource = Resource({"service.name": deployable, "gcp.project_id": settings.project_id})
    processor: SpanProcessor
    if settings.traces == GOOGLE or settings.traces.startswith("http"):
        processor = BatchSpanProcessor(_open_exporter(settings.traces))
    else:
        processor = SimpleSpanProcessor(_file_exporter(Path(settings.traces)))
    return SpanTraces(processor, resource, settings.pseudonym_key, settings.trace_ratio)


class _IdGenerator:
    """Draws the ids of steps; a trace and its first step have ids that follow from the voice."""

    def generate_trace_id(self) -> int:
        return _BEGUN_TRACE.get()

    def generate_span_id(self) -> int:
        begun = _BEGUN_TRACE.get()
        return _first_step(begun) if begun else random.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        return False


class SpanTraces:
    """Hands the steps of voices to a processor of spans.

    `ratio` is the share of voices that have a trace; all deployables choose the same ones.
    """

    def __init__(
        self, processor: SpanProcessor, resource: Resource, key: str, ratio: float = 1.0
    ) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

        ids = cast("IdGenerator", _IdGenerator())
        self.provider = TracerProvider(TraceIdRatioBased(ratio), resource, id_generator=ids)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer(__name__)
        self._key = key

    @contextmanager
    def step(self, voice_id: str, name: str) -> Iterator[TraceStep]:
        from opentelemetry.trace import use_span

        begin, step = time.time(), TraceStep()
        span = self._start(voice_id, name, begin)
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield step
        except BaseException as error:
            step.error = step.error or type(error).__name__
            raise
        finally:
            _end(span, step, max(begin, time.time()))

    def add(
        self,
        voice_id: str,
        name: str,
        begin: float | str,
        end: float | None = None,
        *,
        facts: Mapping[str, Fact] | None = None,
        is_first: bool = False,
    ) -> None:
        if isinstance(begin, str):
            try:
                begin = datetime.fromisoformat(begin).timestamp()
            except ValueError:
                return
        span = self._start(voice_id, name, begin, is_first=is_first)
        # Clocks of two machines differ: a step that seems to end before it began took no time.
        end = max(begin, time.time() if end is None else end)
        _end(span, TraceStep(dict(facts or {})), end)

    def _start(self, voice_id: str, name: str, begin: float, *, is_first: bool = False) -> Span:
        from opentelemetry import trace
        from opentelemetry.context import Context

        trace_id = int(pseudonym(voice_id, self._key), 16)
        start = partial(self._tracer.start_span, name, start_time=int(begin * 1e9))
        if is_first:
            token = _BEGUN_TRACE.set(trace_id)
            try:
                return start(Context())
            finally:
                _BEGUN_TRACE.reset(token)
        parent = trace.get_current_span()
        if parent.get_span_context().trace_id != trace_id:
            first = _first_step(trace_id)
            sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            parent = trace.NonRecordingSpan(
                trace.SpanContext(trace_id, first, is_remote=True, trace_flags=sampled)
            )
        return start(trace.set_span_in_context(parent))


def _end(span: Span, step: TraceStep, end: float) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attributes(step.facts)
    if step.error is not None:
        span.set_status(StatusCode.ERROR, step.error)
    span.end(int(end * 1e9))


def _first_step(trace_id: int) -> int:
    return trace_id >> 64 or 1


def _open_exporter(address: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if address != GOOGLE:
        return OTLPSpanExporter(address, timeout=EXPORT_SECONDS)
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    session = AuthorizedSession(credentials)
    return OTLPSpanExporter(GOOGLE_ENDPOINT, timeout=EXPORT_SECONDS, session=session)


def _file_exporter(path: Path) -> Any:
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class FileExporter(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            # Several processes append to the file, so a batch is written at once.
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{span.to_json(indent=None)}\n" for span in spans))
            return SpanExportResult.SUCCESS

    return FileExporter()
