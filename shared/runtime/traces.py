"""Traces as OpenTelemetry's spans: to Cloud Trace, to a collector, or into a file.

Cloud Storage's notifications carry no context of a trace, and a message may be lost and published
again by somebody else. So nothing is handed on: a voice's trace is the pseudonym that the logs give
to it, which every deployable computes from the voice_id and the logs' key. With it, a trace names
no voice to whoever has not got the key, and log entries and steps of a voice have the same trace.

OpenTelemetry is imported only where there are traces.
"""
# ruff: noqa: PLC0415 - see above

from __future__ import annotations

import atexit
import random
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shared.ports import NO_TRACES, TraceStep
from shared.runtime.logs import pseudonym

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

    from shared.ports import Fact, Traces
    from shared.runtime.settings import CommonSettings

GOOGLE: Final = "google"
"""The setting that sends traces to Cloud Trace."""

GOOGLE_ENDPOINT: Final = "https://telemetry.googleapis.com/v1/traces"
"""Cloud Trace's address for OTLP.

https://docs.cloud.google.com/stackdriver/docs/reference/telemetry/v1.traces.post
"""

_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/trace.append"

EXPORT_SECONDS: Final = 10.0
"""How long sending a batch of steps may take; nobody waits for it but the end of the process."""

_PARENT: ContextVar[int | None] = ContextVar("parent_span", default=None)


def open_traces(settings: CommonSettings, deployable: str) -> Traces:
    """Open the traces that the settings name."""
    if settings.traces is None:
        return NO_TRACES
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    resource = Resource({"service.name": deployable, "gcp.project_id": settings.project_id})
    processor: SpanProcessor
    if settings.traces == GOOGLE or settings.traces.startswith("http"):
        processor = BatchSpanProcessor(_open_exporter(settings.traces))
    else:
        processor = SimpleSpanProcessor(_lines(Path(settings.traces)))
    atexit.register(processor.shutdown)
    return SpanTraces(processor, resource, settings.pseudonym_key, settings.trace_ratio)


@dataclass(frozen=True, slots=True)
class SpanTraces:
    """Hands the steps of voices to a processor of spans.

    Attributes:
        ratio: the share of voices that have a trace; all deployables choose the same ones.
    """

    processor: SpanProcessor
    resource: Resource
    key: str
    ratio: float = 1.0
    _random: random.Random = field(default_factory=random.Random)

    @contextmanager
    def step(self, voice_id: str, name: str) -> Iterator[TraceStep]:
        """Take what happens inside for a step; see `Traces.step`."""
        span_id, parent, step = self._new_id(), _PARENT.get(), TraceStep()
        token, begin = _PARENT.set(span_id), time.time()
        try:
            yield step
        except BaseException as error:
            step.error = step.error or type(error).__name__
            raise
        finally:
            _PARENT.reset(token)
            self._end(voice_id, name, (begin, time.time()), step, (span_id, parent))

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
        """Add a step that is over; see `Traces.add`."""
        if isinstance(begin, str):
            try:
                begin = datetime.fromisoformat(begin).timestamp()
            except ValueError:
                return
        times = (begin, time.time() if end is None else end)
        ids = (None if is_first else self._new_id(), _PARENT.get())
        self._end(voice_id, name, times, TraceStep(dict(facts or {})), ids)

    def _new_id(self) -> int:
        return self._random.randrange(1, 1 << 64)

    def _end(
        self,
        voice_id: str,
        name: str,
        times: tuple[float, float],
        step: TraceStep,
        ids: tuple[int | None, int | None],
    ) -> None:
        """Hand a step on, if its voice is one of those that have a trace.

        Args:
            times: its begin and end, in seconds since 1970.
            ids: its own, None for the first step of the voice; and that of the step around it, None
                for the first step of the voice.
        """
        trace_id = int(pseudonym(voice_id, self.key), 16)
        # As OpenTelemetry's TraceIdRatioBased decides.
        if trace_id & ((1 << 64) - 1) >= self.ratio * (1 << 64):
            return
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def context(span_id: int | None) -> SpanContext:
            # The first step's id follows from the trace's, so that nobody has to be told it.
            known = span_id or trace_id >> 64 or 1
            return SpanContext(trace_id, known, is_remote=False, trace_flags=TraceFlags(1))

        own, around = ids
        failed = Status(StatusCode.ERROR, step.error)
        span = ReadableSpan(
            name,
            context(own),
            parent=None if own is None else context(around),
            resource=self.resource,
            attributes=step.facts,
            status=Status() if step.error is None else failed,
            start_time=_nanoseconds(times[0]),
            # Clocks of two machines differ: what came "before" it was sent took no time.
            end_time=_nanoseconds(max(times)),
        )
        self.processor.on_end(span)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def _open_exporter(address: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if address != GOOGLE:
        return OTLPSpanExporter(address, timeout=EXPORT_SECONDS)
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    session = AuthorizedSession(credentials)
    return OTLPSpanExporter(GOOGLE_ENDPOINT, timeout=EXPORT_SECONDS, session=session)


def _lines(path: Path) -> Any:
    """Return an exporter that appends each span to a file, as a line of JSON."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Lines(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            # Several processes append to the file: what is written at once stays together.
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{span.to_json(indent=None)}\n" for span in spans))
            return SpanExportResult.SUCCESS

    return Lines()
