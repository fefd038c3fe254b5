"""Logging as Cloud Logging reads it: one JSON object per line on standard output.

The fields of a record's `extra={"event": ..., ...}` become fields of the entry. The voice and the
trace of the current request are added to every entry.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VOICE_ID: ContextVar[str | None] = ContextVar("voice_id", default=None)
_TRACE_ID: ContextVar[str | None] = ContextVar("trace_id", default=None)

_LEAST_LEVELS: Final = {
    # At level DEBUG, HTTP/2's header compression logs every header and therefore every token.
    "hpack": logging.INFO,
    # It logs every request at level INFO; our own code logs those that fail.
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
        # One half of a surrogate pair is no valid UTF-8, so it is written as an escape.
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


@contextmanager
def about_trace(trace_id: str | None) -> Iterator[None]:
    """Add a request's trace id, 32 hexadecimal digits, to every entry that is logged inside."""
    token = _TRACE_ID.set(trace_id)
    try:
        yield
    finally:
        _TRACE_ID.reset(token)
