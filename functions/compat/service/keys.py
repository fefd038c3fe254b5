"""Keys: the requests that carry one, the use of each in a day, and its limits."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import threading
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from functions.compat.service.synthesis import ClientLeftError
from shared.runtime.origins import is_allowed_origin, is_own_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.compat.service.shared_files import LockedJsonFile

    Refuse = Callable[[HTTPStatus, str], Response]

KEY_PREFIX: Final = "key."  # of a subprotocol that holds the key
OPERATOR: Final = "operator"  # the owner of the key that may see the use of the others
NOBODY: Final = "nobody"  # the owner of requests where no key is needed
_OWNER: Final = "voice_avatar.client"


@dataclass(frozen=True, slots=True)
class Access:
    """The keys by their owners, and the sites and hosts that may call.

    `allowed_hosts` are the names under which requests may come where no key is needed, `*` for all;
    addresses and `localhost` always may. A page of another site can give its own name this
    machine's address, and then call under that name (DNS rebinding).
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ("*",)

    def owner_of(self, carried: str) -> str | None:
        found = None
        for owner, key in self.keys.items():
            # All are compared, so that the time tells nothing.
            if hmac.compare_digest(carried.encode(), key.encode()):
                found = owner
        return found


def key_owner_of(scope: Scope) -> str | None:
    """Return the owner of a request's key; None where no key is needed."""
    owner: str | None = scope.get(_OWNER)
    return owner


class AccessMiddleware:
    """ASGI middleware: refuses requests without a key, and those of pages of other sites.

    The key comes in the header that a dialect has for it, `xi-api-key`, `X-API-Key` or
    `Authorization: Bearer`. Clients that know no key send it as the password of an address such as
    `http://bot:KEY@host`, and pages as a subprotocol of their WebSocket.
    """

    def __init__(self, app: ASGIApp, access: Access, refuse: Refuse) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        scope[_OWNER] = None
        # A browser's question whether it may call carries no key.
        if not access.keys or scope.get("method") == "OPTIONS":
            return None
        owner = access.owner_of(key_in(headers))
        if owner is None:
            detail = "Not authenticated; send the key that the operator has given you."
            return self._refuse(HTTPStatus.UNAUTHORIZED, detail)
        scope[_OWNER] = owner
        return None


def key_in(headers: Headers) -> str:
    key = headers.get("xi-api-key") or headers.get("x-api-key")
    if key:
        return key
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        key = value.strip()
    elif kind.lower() == "basic":
        with suppress(binascii.Error, UnicodeDecodeError):
            key = base64.b64decode(value, validate=True).decode().partition(":")[2]
    if key:
        return key
    offered = headers.get("sec-websocket-protocol", "").split(",")
    keys = (each.strip().removeprefix(KEY_PREFIX) for each in offered if KEY_PREFIX in each)
    return next(keys, "")


_LOG = logging.getLogger(__name__)


class LimitReachedError(Exception):
    """A key has used all that it may use today."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The most that one key may use in a day (UTC); None for no limit."""

    characters: int | None = None
    seconds: float | None = None


class KeyUsage(BaseModel):
    model_config = ConfigDict(frozen=True)

    requests: int = 0
    characters: int = 0
    seconds: float = 0.0

    def plus(self, other: KeyUsage, sign: int = 1) -> KeyUsage:
        return KeyUsage(
            requests=self.requests + sign * other.requests,
            characters=self.characters + sign * other.characters,
            seconds=max(0.0, self.seconds + sign * other.seconds),
        )


class _Day(BaseModel):
    day: str = ""
    used: dict[str, KeyUsage] = Field(default_factory=dict)


_DAY = TypeAdapter(_Day)


class Meter:
    """Counts the use of each key, and refuses requests beyond its limits.

    All processes of a machine count together in `file`; without one this process counts alone.
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
        self._lock = threading.Lock()

    @asynccontextmanager
    async def count(
        self, owner: str | None, dialect: str, *, characters: int = 0, seconds: float = 0.0
    ) -> AsyncIterator[None]:
        """Count one request before it is served, and take back what fails inside the context.

        A client that leaves pays for its request. Raises LimitReachedError if the key would use
        more than it may use today.
        """
        name = owner or NOBODY
        added = KeyUsage(requests=1, characters=characters, seconds=seconds)
        day = await self._off_the_loop(self._add, name, added)
        is_used = True
        try:
            yield
        except Exception as error:
            is_used = isinstance(error, ClientLeftError)
            if not is_used:
                await self._off_the_loop(self._take_back, name, added, day)
            raise
        finally:
            if is_used:
                use = {"key": name, "door": dialect, "characters": characters}
                extra = {"event": "metered", **use, "seconds": round(seconds, 3)}
                _LOG.info("counted for %s", name, extra=extra)

    def usage(self) -> Mapping[str, KeyUsage]:
        with self._lock:
            return dict(self._current().used)

    async def _off_the_loop(self, act: Callable[..., str], *arguments: object) -> str:
        return act(*arguments) if self._file is None else await asyncio.to_thread(act, *arguments)

    def _add(self, name: str, added: KeyUsage) -> str:
        with self._locked() as day:
            total = day.used.get(name, KeyUsage()).plus(added)
            most, seconds, over = self._limits.characters, self._limits.seconds, ""
            if most is not None and total.characters > most:
                over = f"{most} characters a day spoken"
            elif seconds is not None and total.seconds > seconds:
                over = f"{seconds:g} seconds a day converted"
            if over:
                raise LimitReachedError(f"The key may have {over}; come again tomorrow.")
            self._write(day, name, total)
        return day.day

    def _take_back(self, name: str, added: KeyUsage, on: str) -> str:
        with self._locked() as day:
            if day.day == on and name in day.used:
                self._write(day, name, day.used[name].plus(added, -1))
        return day.day

    @contextmanager
    def _locked(self) -> Iterator[_Day]:
        with self._lock, nullcontext() if self._file is None else self._file.lock():
            yield self._current()

    def _write(self, day: _Day, name: str, used: KeyUsage) -> None:
        others = {key: each for key, each in day.used.items() if key != name}
        self._day = _Day(day=day.day, used={**others, name: used} if used.requests else others)
        if self._file is not None:
            self._file.write(self._day.model_dump_json().encode())

    def _current(self) -> _Day:
        self._day = (self._file and self._file.read_new(_DAY)) or self._day
        today = self._today()
        if self._day.day != today:
            self._day = _Day(day=today)
        return self._day


PATHS: Final = ("/metrics",)
_HELP: Final = {
    "requests": "Requests of today (UTC).",
    "characters": "Characters of text of today (UTC).",
    "seconds": "Seconds of recordings of today (UTC).",
}


def build(meter: Meter) -> Starlette:
    async def metrics(request: Request) -> Response:
        if key_owner_of(request.scope) not in {None, OPERATOR}:
            detail = "Only the operator's key may see the use of the others."
            return refuse(HTTPStatus.FORBIDDEN, detail)
        usage, lines = meter.usage(), list[str]()
        for unit, meaning in _HELP.items():
            name = f"voice_avatar_{unit}_today"
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [f'{name}{{key="{key}"}} {getattr(used, unit)}' for key, used in usage.items()]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/metrics", metrics)])


def refuse(status: HTTPStatus, message: str) -> Response:
    return JSONResponse({"detail": message}, status)
