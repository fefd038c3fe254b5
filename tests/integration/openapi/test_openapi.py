"""The api does what its OpenAPI description says: a program tests it that read only that."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.unit.api.stage import ApiStage
from tests.unit.api.test_verifications import FOUND

if TYPE_CHECKING:
    from schemathesis.generation.case import Case as AnyCase

    Case = AnyCase[Any]

# Threads that earlier tests have left draw random numbers, too, which is taken for the strategies'.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

# A schema cannot express which characters exist and what they take, which bytes are a recording, or
# who owns a voice.
KNOWN_TO_THE_SERVICE_ALONE = {
    "content_type_mismatch",
    "corrupt",
    "no_audio",
    "nothing_to_say",
    "pitch_not_adjustable",
    "speech_not_taken",
    "text_not_taken",
    "text_too_long",
    "text_unreadable",
    "unknown_character",
    "unknown_style",
    "unsupported_format",
}


def verify(request: httpx.Request) -> httpx.Response:
    if request.content:
        return httpx.Response(200, json=FOUND)
    return httpx.Response(422, json={"code": "unsupported_format", "message": "It is no sound."})


STAGE = ApiStage(wait_seconds=0.05, verifying=verify)
APP = STAGE.app()
# Each request is a lifetime of its own, after which the clients of the other services stay open.
APP.router.lifespan_context = lambda _app: nullcontext()
DESCRIPTION: Any = schemathesis.openapi.from_asgi("/openapi.json", APP)
DESCRIPTION.config.generation.update(
    max_examples=20, deterministic=True, database="none", no_shrink=True
)


def make_test(method: str, path: str) -> Any:
    @DESCRIPTION.include(method=method, path=path).parametrize()  # type: ignore[untyped-decorator]
    def test(case: Case) -> None:
        response = case.call()
        excluded: list[Any] = []
        code = response.json().get("code") if "problem" in str(response.headers) else None
        if code in KNOWN_TO_THE_SERVICE_ALONE:
            excluded.append(positive_data_acceptance)
        if code == "still_converting":
            # 504 is not an error of the server here: the client shall ask again.
            excluded.append(not_a_server_error)
        case.validate_response(response, excluded_checks=excluded)

    return test


# A name each: pytest-xdist takes the tests that schemathesis makes of one function for the same.
for operation in (each.ok() for each in DESCRIPTION.get_all_operations()):
    name = re.sub(r"\W+", "_", operation.label.lower())
    globals()[f"test_{name}"] = make_test(operation.method, operation.path)
