"""The HTTP side of sweep: each request of Cloud Scheduler starts one sweep."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from shared.errors import PassingError
from shared.http.authorization import authorization_of
from shared.http.push import app_with_probe
from shared.ports.tokens import TokenRefusedError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

    from functions.sweep.own_characters import OwnCharacterSweep
    from functions.sweep.sweeping import Sweeper
    from shared.ports.tokens import TokenVerifier

_LOG = logging.getLogger(__name__)


def create_app(
    sweeper: Sweeper, verifier: TokenVerifier, own_characters: OwnCharacterSweep | None = None
) -> Starlette:
    """Return the application: `POST /` sweeps once, `GET /healthz` answers probes.

    `POST /` answers 200 with the counts, 401 to a request without the scheduler's token, 503 if
    something is left for the next sweep, and 500 after an unexpected error.
    """

    async def sweep(request: Request) -> Response:
        try:
            await verifier.verify(authorization_of(request.headers))
            done = await sweeper.sweep()
            if own_characters is not None:
                await own_characters.sweep()
            return JSONResponse(done)
        except TokenRefusedError as error:
            _LOG.warning("sweep refused: %s", error, extra={"event": "push_refused"})
            return PlainTextResponse("this request proves no permission", 401)
        except PassingError as error:
            _LOG.warning("sweep incomplete: %s", error, extra={"event": "sweep_incomplete"})
            return PlainTextResponse("incomplete", 503)
        except Exception:  # noqa: BLE001 - the scheduler comes again, whatever the error
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
            return PlainTextResponse("unexpected error", 500)

    return app_with_probe(Route("/", sweep, methods=["POST"]))
