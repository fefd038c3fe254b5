"""The proxy before a container that scales to zero.

    python -m infra.local.scale_to_zero_proxy ... -- COMMAND


It listens where the service is reached. The first request starts the container's process; requests
are held until that is ready, passed on as they stream, and when none has come for a while the
process is stopped. A request whose instance does not start, or ends under it, is answered 503.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from infra.local.autoscaler import Autoscaler, Container
from infra.local.processes import StartError, Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypercorn.typing import ASGIFramework
    from starlette.types import Receive, Scope, Send

    from infra.local.cloud import Scaling

_LOG = logging.getLogger(__name__)

# They are about one connection, not about the message (RFC 9110, 7.6.1).
_OF_THE_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


class Front:
    """An ASGI application that passes requests on to the instance of the moment.

    Args:
        autoscaler: has the instance.
        client: passes requests on.
    """

    def __init__(self, autoscaler: Autoscaler, client: httpx.AsyncClient) -> None:
        self._autoscaler = autoscaler
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold one request until there is an instance, and pass it on."""
        request = Request(scope, receive)
        async with AsyncExitStack() as stack:
            try:
                answer = await self._ask(stack, request)
            except (StartError, httpx.TransportError, ClientDisconnect) as error:
                _LOG.warning("%s %s: %r", request.method, request.url.path, error)
                await PlainTextResponse("no instance", 503)(scope, receive, send)
                return
            await _pass_on(answer, send)

    async def _ask(self, stack: AsyncExitStack, request: Request) -> httpx.Response:
        instance = await stack.enter_async_context(self._autoscaler.instance())
        url = request.url.replace(scheme="http", netloc=instance.url.removeprefix("http://"))
        has_body = {"content-length", "transfer-encoding"} & set(request.headers)
        asked = self._client.stream(
            request.method,
            str(url),
            headers=_of_the_message(request.headers.raw),
            content=request.stream() if has_body else None,
        )
        try:
            return await stack.enter_async_context(asked)
        except httpx.TransportError:
            # Mostly it ended: the next request must not run into that, too.
            await instance.may_have_ended()
            raise


async def _pass_on(answer: httpx.Response, send: Send) -> None:
    headers = _of_the_message(answer.headers.raw)
    start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
    await send(start)
    async for chunk in answer.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _of_the_message(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    lowered = ((name.lower(), value) for name, value in headers)
    return [(name, value) for name, value in lowered if name not in _OF_THE_CONNECTION]


def create_app(autoscaler: Autoscaler, client: httpx.AsyncClient) -> Starlette:
    """Return the application: everything is passed on, but for `GET /healthz`.

    That one tells of the front itself: as in Cloud Run, only probes ask an instance for it.
    """

    async def healthz(_request: Request) -> Response:
        return Response(status_code=204 if autoscaler.is_ready else 503)

    front = Front(autoscaler, client)
    return Starlette(routes=[Route("/healthz", healthz), Mount("/", front)])


def command(name: str, port: int, logs: Path, probe: str, scaling: Scaling) -> list[str]:
    """Return the command of a front, to which the container's own is to be added."""
    return [
        *(sys.executable, "-m", "infra.local.scale_to_zero_proxy", name),
        *("--port", str(port), "--logs", str(logs), "--probe", probe),
        *("--idle-seconds", str(scaling.idle_seconds)),
        *("--min-instances", str(scaling.min_instances), "--"),
    ]


async def serve_front(autoscaler: Autoscaler, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then stop the instance, and only then the front.

    Raises:
        StartError: an instance that is always to be there did not get ready.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    keeping = asyncio.create_task(autoscaler.keep_minimum())

    async def over() -> None:
        await asyncio.wait({stopped, keeping}, return_when=asyncio.FIRST_COMPLETED)
        keeping.cancel()
        # Requests under way are answered by the stopping instance.
        await autoscaler.aclose()

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 1.0
    # A new connection for each request: an instance closes kept ones when it likes.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:  # noqa: S113 - the sender's
        app = create_app(autoscaler, client)
        await serve(cast("ASGIFramework", app), config, shutdown_trigger=over)
    stopped.cancel()
    if not keeping.cancelled():
        keeping.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a front; return the exit code."""
    parser = argparse.ArgumentParser(prog="front", description=__doc__)
    parser.add_argument("name", help="of the service")
    parser.add_argument("--port", type=int, required=True, help="where to listen")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the instances' logs")
    parser.add_argument("--probe", default="/readyz", help="answers when an instance is ready")
    parser.add_argument("--idle-seconds", type=float, default=900.0)
    parser.add_argument("--min-instances", type=int, choices=(0, 1), default=0)
    parser.add_argument("command", nargs="+", help="of the container")
    wish = parser.parse_args(arguments)
    environment: dict[str, Any] = dict(os.environ)
    autoscaler = Autoscaler(
        Supervisor(wish.logs),
        Container(wish.name, wish.command, environment, wish.probe),
        idle_seconds=wish.idle_seconds,
        min_instances=wish.min_instances,
    )
    try:
        asyncio.run(serve_front(autoscaler, wish.port))
    except StartError as error:
        print(error, file=sys.stderr)  # noqa: T201 - whoever started it reads its log
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
