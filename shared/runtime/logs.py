"""Logs as Cloud Logging reads them: one JSON object per line on standard output.

The fields of a record's `extra={"event": ..., ...}` become fields of the entry.

The id of a voice or of a visitor's own character permits using it, so no entry contains one: also
in messages and stack traces it is replaced by its pseudonym, a hash with a secret key. With the
key, an operator can look a visitor's voice up:

    LOG_KEY=... python -m shared.runtime.logs VOICE_ID
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from starlette.types import ASGIApp, Receive, Scope, Send


_VOICE_ID: ContextVar[str | None] = ContextVar("voice_id", default=None)
_TRACE_ID: ContextVar[str | None] = ContextVar("trace_id", default=None)

_LEAST_LEVELS: Final = {
    # At level DEBUG, HTTP/2's header compression logs every header and therefore every token.
    "hpack": logging.INFO,
    # It logs every request at level INFO; our own code logs those that fail.
    "httpx": logging.WARNING,
}

# The ids of voices, and of visitors' own characters (shared.characters.bucket).
_SECRET_IDS: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|own-[a-z2-7]{26}",
    re.IGNORECASE,
)
KEY_VARIABLE: Final = "LOG_KEY"
LOCAL_KEY: Final = "a key that everybody knows"  # of the local cloud, whose logs anybody may read
MOST_CHARACTERS: Final = 8192  # of one text: a group of errors has a stack trace for each
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def pseudonym(voice_id: str, key: str) -> str:
    """Hash an id for the logs: 32 hexadecimal digits, which only the key explains."""
    digest = hmac.new(key.encode(), voice_id.lower().encode(), hashlib.sha256)
    return digest.hexdigest()[:32]


class CloudLoggingFormatter(logging.Formatter):
    def __init__(self, project_id: str, key: str, *, has_traces: bool = False) -> None:
        super().__init__()
        self._has_traces = has_traces
        self._project_id = project_id
        self._key = key

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "severity": record.levelname,
            "message": _cut(record.getMessage()),
            "logger": record.name,
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info:
            entry["stack_trace"] = _cut(self.formatException(record.exc_info))
        if voice_id := _VOICE_ID.get():
            entry["voice"] = pseudonym(voice_id, self._key)
        trace_id = entry.get("voice") if self._has_traces else None
        if trace_id := trace_id or _TRACE_ID.get():
            name = f"projects/{self._project_id}/traces/{trace_id}"
            entry["logging.googleapis.com/trace"] = name
        entry |= {k: v for k, v in vars(record).items() if k not in _STANDARD_FIELDS}
        text = json.dumps(entry, ensure_ascii=False, default=str)
        text = _SECRET_IDS.sub(lambda found: pseudonym(found[0], self._key), text)
        # One half of a surrogate pair is no valid UTF-8, so it is written as an escape.
        return text.encode(errors="backslashreplace").decode()


def _cut(text: str) -> str:
    left_out = len(text) - MOST_CHARACTERS
    if left_out <= 0:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n[{left_out} characters left out]\n{text[-half:]}"


def configure(project_id: str, level: str, key: str, *, has_traces: bool = False) -> None:
    """Send all log records of this process to standard output, formatted for Cloud Logging."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(CloudLoggingFormatter(project_id, key, has_traces=has_traces))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in _LEAST_LEVELS.items():
        logging.getLogger(name).setLevel(least)


def about_voice(voice_id: str) -> AbstractContextManager[None]:
    """Add the voice's pseudonym to every entry that is logged inside."""
    return _set(_VOICE_ID, voice_id)


def about_trace(trace_id: str | None) -> AbstractContextManager[None]:
    """Add a request's trace id, 32 hexadecimal digits, to every entry that is logged inside."""
    return _set(_TRACE_ID, trace_id)


@contextmanager
def _set(variable: ContextVar[str | None], value: str | None) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def main(arguments: list[str]) -> int:
    if not arguments:
        print("Which voice? python -m shared.runtime.logs VOICE_ID", file=sys.stderr)  # noqa: T201
        return 2
    for voice_id in arguments:
        print(pseudonym(voice_id, os.environ.get(KEY_VARIABLE, LOCAL_KEY)))  # noqa: T201
    return 0


# https://www.w3.org/TR/trace-context/ and Google's older header, which begins with the trace id.
_HEADERS: Final = {
    b"traceparent": re.compile(rb"^[0-9a-f]{2}-([0-9a-f]{32})-"),
    b"x-cloud-trace-context": re.compile(rb"^([0-9a-f]{32})"),
}


class TraceMiddleware:
    """Adds the request's trace to every entry that is logged during it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = (
            _HEADERS[name].match(value) for name, value in scope["headers"] if name in _HEADERS
        )
        with about_trace(next((each[1].decode() for each in found if each), None)):
            await self._app(scope, receive, send)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
