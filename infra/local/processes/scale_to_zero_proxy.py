"""The proxy in front of a container that scales to zero.

    python -m infra.local.processes.scale_to_zero_proxy ... -- COMMAND

It listens at the service's address. The first request starts the container's process. Requests wait
until the process is ready; then their bodies and answers stream through. After a while without
requests the process is stopped. If the process does not start, or ends during a request, the answer
is 503.
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

from infra.local.configuration.options import LivenessProbe, Scaling
from infra.local.processes.autoscaler import Autoscaler, Container
from infra.local.processes.processes import StartError, Supervisor
from shared.process.signals import on_signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypercorn.typing import ASGIFramework
    from starlette.types import Receive, Scope, Send


_LOG = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 3600.0
"""How long an instance may be silent; Cloud Run's longest request, and clients give up earlier."""

# They describe one connection, not the message (RFC 9110, 7.6.1).
_CONNECTION_HEADERS: Final = frozenset(
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


class ScaleToZeroProxy:
    """An ASGI application that passes requests on to the running instance.

    Args:
        autoscaler: runs the instance.
        client: passes requests on.
    """

    def __init__(self, autoscaler: Autoscaler, client: httpx.AsyncClient) -> None:
        self._autoscaler = autoscaler
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a request until an instance is ready, and pass it on."""
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
            headers=_message_headers(request.headers.raw),
            content=request.stream() if has_body else None,
        )
        try:
            return await stack.enter_async_context(asked)
        except httpx.TransportError:
            # Most likely the process has ended: the next request must not be sent to it.
            await instance.may_have_ended()
            raise


async def _pass_on(answer: httpx.Response, send: Send) -> None:
    headers = _message_headers(answer.headers.raw)
    start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
    await send(start)
    async for chunk in answer.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _message_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    lowered = ((name.lower(), value) for name, value in headers)
    return [(name, value) for name, value in lowered if name not in _CONNECTION_HEADERS]


def create_app(autoscaler: Autoscaler, client: httpx.AsyncClient) -> Starlette:
    """Return the application: it passes every request on except `GET /healthz`.

    That one is answered for the proxy itself: as in Cloud Run, an instance is asked for it only by
    its liveness probe.
    """

    async def healthz(_request: Request) -> Response:
        return Response(status_code=204 if autoscaler.is_ready else 503)

    proxy = ScaleToZeroProxy(autoscaler, client)
    return Starlette(routes=[Route("/healthz", healthz), Mount("/", proxy)])


def command(
    name: str,
    port: int,
    *,
    logs: Path,
    ready_path: str,
    scaling: Scaling,
    liveness: LivenessProbe,
) -> list[str]:
    """Return the command of a proxy; the container's own command has to follow."""
    return [
        *(sys.executable, "-m", "infra.local.processes.scale_to_zero_proxy", name),
        *("--port", str(port), "--logs", str(logs), "--probe", ready_path),
        *("--idle-seconds", str(scaling.idle_seconds)),
        *("--min-instances", str(scaling.min_instances)),
        *("--liveness-period", str(liveness.period_seconds)),
        *("--liveness-timeout", str(liveness.timeout_seconds)),
        *("--liveness-failures", str(liveness.failure_threshold)),
        "--",
    ]


async def serve_proxy(autoscaler: Autoscaler, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then stop the instance, and after it the proxy.

    Raises:
        StartError: the minimum instance did not get ready.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        on_signal(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    keeping = asyncio.create_task(autoscaler.keep_minimum())

    async def over() -> None:
        await asyncio.wait({stopped, keeping}, return_when=asyncio.FIRST_COMPLETED)
        keeping.cancel()
        # The stopping instance still answers its requests.
        await autoscaler.aclose()

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 1.0
    # A new connection for each request: an instance may close a kept one at any time.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=REQUEST_SECONDS, limits=limits) as client:
        app = create_app(autoscaler, client)
        await serve(cast("ASGIFramework", app), config, shutdown_trigger=over)
    stopped.cancel()
    if not keeping.cancelled():
        keeping.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a proxy; return the exit code."""
    parser = argparse.ArgumentParser(prog="scale_to_zero_proxy", description=__doc__)
    parser.add_argument("name", help="of the service")
    parser.add_argument("--port", type=int, required=True, help="where to listen")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the instances' logs")
    parser.add_argument("--probe", default="/readyz", help="answers when an instance is ready")
    parser.add_argument("--idle-seconds", type=float, default=900.0)
    parser.add_argument("--min-instances", type=int, choices=(0, 1), default=0)
    parser.add_argument("--liveness-period", type=float, default=10.0)
    parser.add_argument("--liveness-timeout", type=float, default=5.0)
    parser.add_argument("--liveness-failures", type=int, default=3)
    parser.add_argument("command", nargs="+", help="of the container")
    parsed = parser.parse_args(arguments)
    environment: dict[str, Any] = dict(os.environ)
    autoscaler = Autoscaler(
        Supervisor(parsed.logs),
        Container(parsed.name, parsed.command, environment, parsed.probe),
        scaling=Scaling(parsed.idle_seconds, parsed.min_instances),
        liveness=LivenessProbe(
            parsed.liveness_period, parsed.liveness_timeout, parsed.liveness_failures
        ),
    )
    try:
        asyncio.run(serve_proxy(autoscaler, parsed.port))
    except StartError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this goes to its log
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
