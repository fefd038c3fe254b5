"""Who may call: requests with a key, and pages of allowed sites."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import threading
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from shared.runtime.origins import is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.compat.service.shared_files import LockedJsonFile


if TYPE_CHECKING:
    Refuse = Callable[[HTTPStatus, str], Response]


KEY_PREFIX: Final = "key."
"""With what a subprotocol begins that holds the key."""

OPERATOR: Final = "operator"
"""Whose the key is that may see what the others have."""

CLIENT: Final = "voice_avatar.client"
"""Where the request's scope says whose key it carries; an empty text where none is needed."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may call.

    Attributes:
        allowed_hosts: the names under which requests may come where no key is needed, `*` for all;
            addresses and `localhost` always may. A page of another site can give its own name this
            machine's address, and then call under that name (DNS rebinding).
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ("*",)

    def owner_of(self, carried: str) -> str | None:
        """Return whose key it is; None if it is nobody's."""
        found = None
        for owner, key in self.keys.items():
            # All are compared, so that the time tells nothing.
            if hmac.compare_digest(carried.encode(), key.encode()):
                found = owner
        return found


def key_owner_of(scope: Scope) -> str:
    """Return whose key a request carries; an empty text where none is needed."""
    client: str = scope.get(CLIENT, "")
    return client


def takes_turns_as(scope: Scope) -> str | None:
    """Return as whom a request takes turns with others; None where no key tells clients apart."""
    return key_owner_of(scope) or None


class AccessMiddleware:
    """ASGI middleware: refuses requests without a key, and those of pages of other sites.

    The key comes in the header that a dialect has for it, `xi-api-key`, `X-API-Key` or
    `Authorization: Bearer`. Clients that know no key send it as the password of an address such as
    `http://bot:KEY@host`.
    """

    def __init__(self, app: ASGIApp, access: Access, refuse: Refuse) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, access = Headers(scope=scope), self._access
        if not access.keys and not is_own_host(headers.get("host", ""), access.allowed_hosts):
            detail = "Host not allowed; ask the operator to add it to ALLOWED_HOSTS."
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, detail)
        origin = headers.get("origin")
        if origin is not None and not is_allowed_origin(
            origin, headers.get("host"), access.allowed_origins
        ):
            detail = "Origin not allowed; ask the operator to allow it."
            return self._refuse(HTTPStatus.FORBIDDEN, detail)
        scope[CLIENT] = ""
        # A browser's question whether it may call carries no key.
        if not access.keys or scope.get("method") == "OPTIONS":
            return None
        owner = access.owner_of(_key_in(headers))
        if owner is None:
            detail = "Not authenticated; send the key that the operator has given you."
            return self._refuse(HTTPStatus.UNAUTHORIZED, detail)
        scope[CLIENT] = owner
        return None


def _key_in(headers: Headers) -> str:
    own = headers.get("xi-api-key") or headers.get("x-api-key")
    return own or _key_of(headers.get("authorization", "")) or _key_offered(headers)


def _key_offered(headers: Headers) -> str:
    """Return the key that a page offers as a subprotocol, as it can send no other header."""
    offered = headers.get("sec-websocket-protocol", "").split(",")
    keys = (each.strip().removeprefix(KEY_PREFIX) for each in offered if KEY_PREFIX in each)
    return next(keys, "")


def _key_of(authorization: str) -> str:
    """Return the key in an `Authorization` header, an empty text if there is none."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


_LOG = logging.getLogger(__name__)

NOBODY: Final = "nobody"
"""Whose it is, where no key is needed."""


class LimitReachedError(Exception):
    """A key has had all that it may have today; one sentence."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What one key may have in a day (UTC); None for no limit."""

    characters: int | None = None
    seconds: float | None = None


class KeyUsage(BaseModel):
    """One key's use of today."""

    model_config = ConfigDict(frozen=True)

    requests: int = 0
    characters: int = 0
    seconds: float = 0.0


class _Day(BaseModel):
    """All keys' use of a day."""

    day: str = ""
    used: dict[str, KeyUsage] = Field(default_factory=dict)


_KEPT = TypeAdapter(_Day)


class Meter:
    """Counts for each key, and refuses what goes beyond its limits.

    Args:
        file: where all processes of a machine count together; None counts in this process.
    """

    def __init__(
        self,
        limits: KeyLimits | None = None,
        file: LockedJsonFile | None = None,
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

        Raises:
            LimitReachedError: the key would have more than it may have today.
        """
        leaving: tuple[type[BaseException], ...] = (asyncio.CancelledError, *left)
        name = owner or NOBODY
        added = KeyUsage(requests=1, characters=characters, seconds=seconds)
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

    def usage(self) -> Mapping[str, KeyUsage]:
        """Return each key's use of today."""
        with self._counting:
            return dict(self._current().used)

    async def _off_the_loop(self, act: Callable[..., str], *arguments: object) -> str:
        return act(*arguments) if self._file is None else await asyncio.to_thread(act, *arguments)

    def _take(self, name: str, added: KeyUsage) -> str:
        """Add to what a key has, if it may have it; return the day."""
        with self._changing() as day:
            total = _sum(day.used.get(name, KeyUsage()), added)
            self._check(total)
            self._write(day, name, total)
        return day.day

    def _give_back(self, name: str, taken: KeyUsage, on: str) -> str:
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

    def _write(self, day: _Day, name: str, used: KeyUsage) -> None:
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

    def _check(self, total: KeyUsage) -> None:
        characters, seconds = self._limits.characters, self._limits.seconds
        if characters is not None and total.characters > characters:
            raise LimitReachedError(
                f"The key may have {characters} characters a day spoken; come again tomorrow."
            )
        if seconds is not None and total.seconds > seconds:
            raise LimitReachedError(
                f"The key may have {seconds:g} seconds a day converted; come again tomorrow."
            )


def _sum(one: KeyUsage, other: KeyUsage) -> KeyUsage:
    return KeyUsage(
        requests=one.requests + other.requests,
        characters=one.characters + other.characters,
        seconds=one.seconds + other.seconds,
    )


def _difference(one: KeyUsage, other: KeyUsage) -> KeyUsage:
    return KeyUsage(
        requests=one.requests - other.requests,
        characters=one.characters - other.characters,
        seconds=max(0.0, one.seconds - other.seconds),
    )


def _tell(name: str, door: str, added: KeyUsage) -> None:
    extra: dict[str, Any] = {
        "event": "metered",
        "key": name,
        "door": door,
        "characters": added.characters,
        "seconds": round(added.seconds, 3),
    }
    _LOG.info("counted for %s", name, extra=extra)


PATHS: Final = ("/metrics",)
_HELP: Final = {
    "requests": "Requests of today (UTC).",
    "characters": "Characters of text of today (UTC).",
    "seconds": "Seconds of recordings of today (UTC).",
}


def build(meter: Meter) -> Starlette:
    """Build the application."""

    async def metrics(request: Request) -> Response:
        if key_owner_of(request.scope) not in {"", OPERATOR}:
            detail = "Only the operator's key may see what the others have."
            return refuse(HTTPStatus.FORBIDDEN, detail)
        return PlainTextResponse(_write(meter), media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/metrics", metrics)])


def refuse(status: HTTPStatus, message: str) -> Response:
    """Answer a refusal."""
    return JSONResponse({"detail": message}, status)


def _write(meter: Meter) -> str:
    usage = meter.usage()
    lines = []
    for unit, meaning in _HELP.items():
        name = f"voice_avatar_{unit}_today"
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
        lines += [f'{name}{{key="{key}"}} {getattr(used, unit)}' for key, used in usage.items()]
    return "\n".join(lines) + "\n"
