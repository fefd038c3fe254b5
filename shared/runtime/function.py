"""A deployable as a function of Cloud Functions.

The Functions Framework loads the function's module and forks a worker process for the requests.
Settings are checked while the module is loaded, so that a function with wrong settings does not
start. The worker opens the clients at its first request, because gRPC's do not survive the fork.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

import functions_framework.aio

from shared.runtime import settings
from shared.runtime.fast_start import spare_what_is_there
from shared.runtime.settings import CommonSettings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

TARGET_VARIABLE: Final = "FUNCTION_TARGET"  # the Functions Framework's name of what it serves

_Settings = TypeVar("_Settings", bound=CommonSettings)
_Services = TypeVar("_Services")


def cloud_function(
    name: str,
    kind: type[_Settings],
    open_services: Callable[[_Settings], _Services],
    build: Callable[[_Settings, _Services], ASGIApp],
    check: Callable[[_Settings], None] | None = None,
) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that hands every request to a deployable's application.

    If the Functions Framework is about to serve it and the settings are wrong, the process exits
    with status 2 and prints one line per variable on standard error.
    """

    @cache
    def application() -> ASGIApp:
        config = settings.load(kind)
        config.configure_logs()
        app = build(config, open_services(config))
        # The archive's main.py turned the collector off for the imports.
        spare_what_is_there()
        return app

    async def function(_request: Request) -> Response:
        return cast("Response", application())  # a function may answer with any ASGI application

    if os.environ.get(TARGET_VARIABLE) == name:
        try:
            config = settings.load(kind)
            if check is not None:
                check(config)
        except SettingsError as error:
            print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
            sys.exit(2)
    function.__name__ = name
    served = functions_framework.aio.http(function)
    return cast("Callable[[Request], Awaitable[Response]]", served)
