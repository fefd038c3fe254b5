"""The routes of pushed messages, and the `Authorization` header behind Cloud Run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shared.ports import TokenRefusedError
from shared.runtime.logs import TraceMiddleware
from shared.voices.messages import MalformedMessageError, parse_push
from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from shared.ports import TokenVerifier
    from shared.voices.messages import PushMessage


LARGEST_BODY: Final = 256 * 1024  # bytes of a push; messages name objects, never contain them

_LOG = logging.getLogger(__name__)


def authorization_of(headers: Mapping[str, str]) -> str | None:
    """Return the `Authorization` header of a request, None if there is none.

    A request with `X-Serverless-Authorization` is refused. Cloud Run checks that header instead and
    passes `Authorization` on unchecked, so any permitted caller could forge a token without a
    signature. Neither Pub/Sub nor Cloud Scheduler sends that header.
    https://cloud.google.com/run/docs/authenticating/service-to-service
    """
    if "x-serverless-authorization" in headers:
        raise TokenRefusedError("the request carries X-Serverless-Authorization")
    return headers.get("authorization")


class OverloadedError(PassingError):
    """This instance has all the work that it may have; another one can take the message."""


class AbandonedError(PassingError):
    """The voice was handed back before it was done, because this instance stops."""


class AbortedPushError(PassingError):
    """The sender has closed the connection; it will send the message again."""


def push_route(
    path: str, verifier: TokenVerifier, handle: Callable[[PushMessage], Awaitable[None]]
) -> Route:
    """Return the route that hands pushed messages to `handle`."""

    async def receive(request: Request) -> Response:
        try:
            await verifier.verify(authorization_of(request.headers))
            await handle(parse_push(await _read_body(request)))
        except TokenRefusedError as error:
            _LOG.warning("push refused: %s", error, extra={"event": "push_refused"})
            return PlainTextResponse("this push proves no permission", 401)
        except MalformedMessageError as error:
            _LOG.error("malformed message: %s", error, extra={"event": "malformed_message"})
            return PlainTextResponse(str(error), 422)
        except OverloadedError as error:
            _LOG.warning("overloaded: %s", error, extra={"event": "overloaded"})
            return PlainTextResponse("busy", 429, {"Retry-After": "1"})
        except PassingError as error:
            _LOG.warning("to be delivered again: %s", error, extra={"event": "nacked"})
            return PlainTextResponse("deliver again", 503)
        except Exception:  # noqa: BLE001 - Pub/Sub keeps the message, whatever the error
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            return PlainTextResponse("unexpected error", 500)
        return Response(status_code=204)

    return Route(path, receive, methods=["POST"])


def push_app(
    verifier: TokenVerifier, handle: Callable[[PushMessage], Awaitable[None]]
) -> Starlette:
    return app_with_probe(push_route("/", verifier, handle))


def app_with_probe(route: Route) -> Starlette:
    """Return an application with a route and `GET /healthz` for probes."""

    async def healthz(_request: Request) -> Response:
        return Response(status_code=204)

    routes = [route, Route("/healthz", healthz)]
    return Starlette(routes=routes, middleware=[Middleware(TraceMiddleware)])


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_BODY:
                raise MalformedMessageError(f"the body is larger than {LARGEST_BODY} bytes")
    except ClientDisconnect:
        raise AbortedPushError("the push was broken off before all of it had come") from None
    return bytes(body)
