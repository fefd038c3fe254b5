"""Logging as Cloud Logging reads it: one JSON object per line on standard output.

A record's `extra={"event": ..., ...}` become fields of the entry; the voice and the trace that the
present request is about are added to every entry by themselves.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

_VOICE_ID: ContextVar[str | None] = ContextVar("voice_id", default=None)
_TRACE_ID: ContextVar[str | None] = ContextVar("trace_id", default=None)

# https://www.w3.org/TR/trace-context/ and Google's older header, which begins with the trace id.
_TRACE_HEADERS: Final = {
    b"traceparent": re.compile(rb"^[0-9a-f]{2}-([0-9a-f]{32})-"),
    b"x-cloud-trace-context": re.compile(rb"^([0-9a-f]{32})"),
}

_LEAST_LEVELS: Final = {
    # HTTP/2's header compression tells every header at level DEBUG, and so every token.
    "hpack": logging.INFO,
    # It tells every request at level INFO; of those that fail we tell ourselves.
    "httpx": logging.WARNING,
}

_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class CloudLoggingFormatter(logging.Formatter):
    """Formats records as Cloud Logging's structured entries.

    Args:
        project_id: the project whose traces the entries link to.
    """

    def __init__(self, project_id: str) -> None:
        super().__init__()
        self._project_id = project_id

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        entry: dict[str, Any] = {
            "severity": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info:
            entry["stack_trace"] = self.formatException(record.exc_info)
        if voice_id := _VOICE_ID.get():
            entry["voice_id"] = voice_id
        if trace_id := _TRACE_ID.get():
            name = f"projects/{self._project_id}/traces/{trace_id}"
            entry["logging.googleapis.com/trace"] = name
        entry |= {k: v for k, v in vars(record).items() if k not in _STANDARD_FIELDS}
        text = json.dumps(entry, ensure_ascii=False, default=str)
        # Half of a surrogate pair can be written as JSON's escape only, not as UTF-8.
        return text.encode(errors="backslashreplace").decode()


def configure(project_id: str, level: str) -> None:
    """Send every log record of this process to standard output, formatted for Cloud Logging."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(CloudLoggingFormatter(project_id))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in _LEAST_LEVELS.items():
        logging.getLogger(name).setLevel(least)


@contextmanager
def about_voice(voice_id: str) -> Iterator[None]:
    """Add the voice_id to every entry that is logged inside."""
    token = _VOICE_ID.set(voice_id)
    try:
        yield
    finally:
        _VOICE_ID.reset(token)


class TraceMiddleware:
    """ASGI middleware: adds the request's trace to every entry that is logged during it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with its trace set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        token = _TRACE_ID.set(_trace_id(scope))
        try:
            await self._app(scope, receive, send)
        finally:
            _TRACE_ID.reset(token)


def _trace_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        pattern = _TRACE_HEADERS.get(name)
        if pattern and (found := pattern.match(value)):
            return str(found[1].decode())
    return None
