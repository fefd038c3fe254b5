"""Counts what is spoken and converted for each key, so that an operator can bill or limit it."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from functions.compat.keys.kept_file import KeptFile

_LOG = logging.getLogger(__name__)

NOBODY: Final = "nobody"
"""Whose it is, where no key is needed."""


class LimitReachedError(Exception):
    """A key has had all that it may have today; one sentence."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What one key may have in a day (UTC); None for no limit.

    Attributes:
        characters: of text.
        seconds: of recordings.
    """

    characters: int | None = None
    seconds: float | None = None


class Usage(BaseModel):
    """One key's use of today."""

    model_config = ConfigDict(frozen=True)

    requests: int = 0
    characters: int = 0
    seconds: float = 0.0


class _Day(BaseModel):
    """All keys' use of a day."""

    day: str = ""
    used: dict[str, Usage] = Field(default_factory=dict)


_KEPT = TypeAdapter(_Day)


class Meter:
    """Counts for each key, and refuses what goes beyond its limits.

    Args:
        limits: of each key.
        file: where all processes of a machine count together; None counts in this process.
        today: names the day.
    """

    def __init__(
        self,
        limits: KeyLimits | None = None,
        file: KeptFile | None = None,
        today: Callable[[], str] = lambda: datetime.now(UTC).date().isoformat(),
    ) -> None:
        self._limits = limits or KeyLimits()
        self._file = file
        self._today = today
        self._day = _Day()
        self._counting = threading.Lock()

    @asynccontextmanager
    async def counting(
        self,
        owner: str,
        door: str,
        *,
        characters: int = 0,
        seconds: float = 0.0,
        left: tuple[type[Exception], ...] = (),
    ) -> AsyncIterator[None]:
        """Count one request before it is served, and give back what has failed inside the context.

        A client that leaves pays for what it has asked for: only what the service refused or could
        not do is given back.

        Args:
            owner: whose key it carries; empty where none is needed.
            door: through which it came, for the log.
            characters: of text.
            seconds: of recordings.
            left: errors that say that the client has left, beside the cancellation of the task.

        Raises:
            LimitReachedError: the key would have more than it may have today.
        """
        leaving: tuple[type[BaseException], ...] = (asyncio.CancelledError, *left)
        name = owner or NOBODY
        added = Usage(requests=1, characters=characters, seconds=seconds)
        day = await self._off_the_loop(self._take, name, added)
        try:
            yield
        except leaving:
            _tell(name, door, added)
            raise
        except Exception:
            await self._off_the_loop(self._give_back, name, added, day)
            raise
        _tell(name, door, added)

    def usage(self) -> Mapping[str, Usage]:
        """Return each key's use of today."""
        with self._counting:
            return dict(self._current().used)

    async def _off_the_loop(self, act: Callable[..., str], *arguments: object) -> str:
        return act(*arguments) if self._file is None else await asyncio.to_thread(act, *arguments)

    def _take(self, name: str, added: Usage) -> str:
        """Add to what a key has, if it may have it; return the day."""
        with self._changing() as day:
            total = _sum(day.used.get(name, Usage()), added)
            self._check(total)
            self._write(day, name, total)
        return day.day

    def _give_back(self, name: str, taken: Usage, on: str) -> str:
        """Subtract what a key got on a day, unless that day is over; return the day."""
        with self._changing() as day:
            if day.day == on and name in day.used:
                self._write(day, name, _difference(day.used[name], taken))
        return day.day

    @contextmanager
    def _changing(self) -> Iterator[_Day]:
        """Keep threads and processes from counting inside the context."""
        with self._counting, nullcontext() if self._file is None else self._file.changing():
            yield self._current()

    def _write(self, day: _Day, name: str, used: Usage) -> None:
        others = {key: each for key, each in day.used.items() if key != name}
        self._day = _Day(day=day.day, used={**others, name: used} if used.requests else others)
        if self._file is not None:
            self._file.write(self._day.model_dump_json().encode())

    def _current(self) -> _Day:
        day = None if self._file is None else self._file.read_new(_KEPT)
        if day is not None:
            self._day = day
        today = self._today()
        if self._day.day != today:
            self._day = _Day(day=today)
        return self._day

    def _check(self, total: Usage) -> None:
        characters, seconds = self._limits.characters, self._limits.seconds
        if characters is not None and total.characters > characters:
            raise LimitReachedError(
                f"The key may have {characters} characters a day spoken; come again tomorrow."
            )
        if seconds is not None and total.seconds > seconds:
            raise LimitReachedError(
                f"The key may have {seconds:g} seconds a day converted; come again tomorrow."
            )


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        requests=one.requests + other.requests,
        characters=one.characters + other.characters,
        seconds=one.seconds + other.seconds,
    )


def _difference(one: Usage, other: Usage) -> Usage:
    return Usage(
        requests=one.requests - other.requests,
        characters=one.characters - other.characters,
        seconds=max(0.0, one.seconds - other.seconds),
    )


def _tell(name: str, door: str, added: Usage) -> None:
    extra: dict[str, Any] = {
        "event": "metered",
        "key": name,
        "door": door,
        "characters": added.characters,
        "seconds": round(added.seconds, 3),
    }
    _LOG.info("counted for %s", name, extra=extra)
