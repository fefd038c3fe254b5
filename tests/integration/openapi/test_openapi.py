"""The api does what its OpenAPI description says: a program tests it that read only that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.integration.served import environment
from tests.unit.api.stage import ApiStage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schemathesis.core.transport import Response
    from schemathesis.generation.case import Case as AnyCase
    from schemathesis.specs.openapi.schemas import OpenApiSchema

    Case = AnyCase[Any]

ROOT = Path(__file__).parents[3]
EXAMPLES = 20
STEPS = 6

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


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.integration.openapi.cloud"]
    with subprocess.Popen(
        [*command, str(tmp_path_factory.mktemp("cloud"))],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = process.stdout.readline().strip()
        assert address, "the local cloud did not come up"
        yield address
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def described() -> OpenApiSchema:
    """The description, which no service is needed for; the services around the api do not show."""
    loaded = schemathesis.openapi.from_dict(ApiStage().app().openapi())
    loaded.config.generation.update(
        max_examples=EXAMPLES, deterministic=True, database="none", no_shrink=True
    )
    return loaded


DESCRIPTION = described()


OPERATIONS: list[tuple[str, str]] = []


def operation(
    method: str, path: str
) -> Callable[[Callable[[Case, str], None]], Callable[[Case, str], None]]:
    """Parametrize a test with everything to be tried of one operation."""
    OPERATIONS.append((method, path))
    return DESCRIPTION.include(method=method, path=path).parametrize()


def check(case: Case, response: Response) -> None:
    """Check an answer, except for facts that no description can express."""
    excluded: list[Any] = []
    code = response.json().get("code") if "problem" in str(response.headers) else None
    if code in KNOWN_TO_THE_SERVICE_ALONE:
        excluded.append(positive_data_acceptance)
    if code == "still_converting":
        # 504 is not an error of the server here: the client shall ask again.
        excluded.append(not_a_server_error)
    case.validate_response(response, excluded_checks=excluded)


# A test each: pytest-xdist takes the tests that schemathesis makes of one function for the same.
@operation("POST", "/api/v1/voices")
def test_a_voice_is_created_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("PUT", "/api/v1/voices")
def test_a_recording_is_accepted_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("DELETE", "/api/v1/voices/{voice_id}")
def test_a_voice_is_erased_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("GET", "/api/v1/conversion/{voice_id}")
def test_a_conversion_is_waited_for_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("GET", "/api/v1/characters")
def test_the_characters_are_listed_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("POST", "/api/v1/verifications")
def test_a_file_is_verified_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("GET", "/api/v1/characters/{character}")
def test_one_character_is_told_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


@operation("GET", "/api/v1/characters/{character}/portrait")
def test_a_portrait_is_shown_as_described(case: Case, api: str) -> None:
    check(case, case.call(base_url=api))


def test_there_is_a_test_for_every_operation() -> None:
    described = {
        (method.upper(), path)
        for path, methods in DESCRIPTION.raw_schema["paths"].items()
        for method in methods
    }

    assert described == set(OPERATIONS)


def test_the_other_operations_accept_what_one_creates(api: str) -> None:
    machine: Any = DESCRIPTION.as_state_machine()

    class Visits(machine):  # type: ignore[misc]
        def get_call_kwargs(self, _case: Case) -> dict[str, Any]:
            return {"base_url": api}

        def validate_response(
            self, response: Response, case: Case, *_more: Any, **_options: Any
        ) -> None:
            check(case, response)

    Visits.run(
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
    )
