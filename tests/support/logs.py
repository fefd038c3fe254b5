"""Reads log entries."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shared.runtime.logs import LOCAL_KEY, CloudLoggingFormatter, pseudonym

if TYPE_CHECKING:
    from collections.abc import Iterator


def logged_as(voice_id: str) -> str:
    """Return what the entries of a `LogBook`, and of the local cloud, call a voice."""
    return pseudonym(voice_id, LOCAL_KEY)


class LogBook(logging.Handler):
    """Keeps every entry in Cloud Logging's format."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(CloudLoggingFormatter("p", LOCAL_KEY))
        self.entries: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.entries.append(json.loads(self.format(record)))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry.get("event") == event]


@contextmanager
def log_book() -> Iterator[LogBook]:
    book, root = LogBook(), logging.getLogger()
    level = root.level
    root.addHandler(book)
    root.setLevel(logging.DEBUG)
    try:
        yield book
    finally:
        root.removeHandler(book)
        root.setLevel(level)
