"""The `Authorization` header of requests that Cloud Run has let through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.ports.tokens import TokenRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHECKED_INSTEAD: Final = "x-serverless-authorization"


def authorization_of(headers: Mapping[str, str]) -> str | None:
    """Return the `Authorization` header of a request, None if there is none.

    A request with `X-Serverless-Authorization` is refused. Cloud Run checks that header instead and
    passes `Authorization` on unchecked, so anybody who may call the service could forge a token
    without a signature. Neither Pub/Sub nor Cloud Scheduler sends that header.
    https://cloud.google.com/run/docs/authenticating/service-to-service

    Args:
        headers: the request's headers, whose names are found in lower case.

    Raises:
        TokenRefusedError: the request carries `X-Serverless-Authorization`.
    """
    if _CHECKED_INSTEAD in headers:
        raise TokenRefusedError("the request carries X-Serverless-Authorization")
    return headers.get("authorization")
