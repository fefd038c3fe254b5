from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from functions.api.settings import ApiSettings
from functions.convert.settings import ConvertSettings
from functions.dead_letter.settings import DeadLetterSettings
from functions.live.settings import HEARINGS_PER_CPU, LiveSettings
from functions.live_and_compat.settings import LiveAndCompatSettings
from functions.on_upload.settings import OnUploadSettings
from functions.sweep.settings import SweepSettings
from functions.train.settings import TrainSettings
from shared.container.process_plan import (
    FETCHED_CONVERSION_BYTES,
    KOKORO_BYTES,
    MIB,
    PROCESS_BYTES,
    MemoryNeeds,
    Resources,
    memory_needs,
    plan,
)
from shared.runtime.settings import CommonSettings, Environment, load
from shared.speech.decoding.recording import DecodeLimits

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

SETTINGS: dict[str, type[CommonSettings]] = {
    "api": ApiSettings,
    "convert": ConvertSettings,
    "dead_letter": DeadLetterSettings,
    "live": LiveSettings,
    "on_upload": OnUploadSettings,
    "sweep": SweepSettings,
    "train": TrainSettings,
}
SECRETS = {"LOG_KEY": "k" * 64}
LIVE_SECRETS = {"LIVE_TICKET_KEYS": "k" * 64}
"""What Secret Manager holds, which no local names; `options.tftest.hcl` looks at that."""

LOCAL_ONLY = {"SIGNING_KEY_FILE", "WEB_ROOT", "PAGE_CONFIG"}

# What stands for an expression that only an apply can know.
EXAMPLES = {
    r'^google_service_account\.this\["\w+"\]\.email$': "somebody@a-project.iam.gserviceaccount.com",
    r'^try\(google_service_account\.this\["live"\]\.email, ""\)$': "live@a-project.example.com",
    r"^tostring\(try\(var\.live\.sockets, 1\)\)$": "40",
    r"^tostring\(local\.(convert|live)_concurrency\)$": "4",
    r"^tostring\(coalesce\(try\(var\.live\.hearings, null\), ": "8",
    r"^google_storage_bucket\.\w+\.name$": "a-project-voice-avatar-bucket",
    r"^google_firestore_database\.this\.name$": "(default)",
    r"^google_pubsub_topic\.\w+\[\"\w+\"\]\.name$": "voice-avatar-topic",
    r"^google_cloud_run_v2_service\.convert\.uri$": "https://convert.example.com",
    r"^local\.kokoro$": "on",
    r"^local\.provider$": "cpu",
    r"^one\(google_storage_bucket\.\w+\[\*\]\.name\)$": "a-project-voice-avatar-bucket",
    r"^tostring\(local\.training_job_seconds\)$": "3600",
    r"^tostring\(try\(var\.characters\.own\.at_once, 1\)\)$": "1",
    r"^tostring\(try\(var\.characters\.own\.training_seconds, 1800\)\)$": "1800",
    r"^local\.audiences\.\w+$": "https://receiver.example.com",
    r"^tostring\(local\.timeouts\.conversion_deadline\)$": "60",
    r"^tostring\(local\.patience\)$": "300",
    r"^tostring\(local\.trusted_proxies\)$": "1",
    r"^var\.project_id$": "a-project",
    r'^join\(",", local\.origins\)$': "https://voice.example.com",
    r"^var\.app_check == null \? \"off\" : \"on\"$": "off",
    r"^var\.firebase_authentication == null \? \"off\" : \"on\"$": "off",
}


def evaluate(terraform: TerraformModule, expression: str) -> str:
    """Return what an apply with the defaults would set."""
    if (default := terraform.default(expression)) is not None:
        return str(default)
    for pattern, example in EXAMPLES.items():
        if re.search(pattern, expression):
            return example
    assert re.fullmatch(r"[\w-]+", expression), f"no example for the expression {expression}"
    return expression


@pytest.fixture(params=sorted(SETTINGS))
def deployable(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def values(terraform: TerraformModule, deployable: str) -> dict[str, str]:
    told = terraform.environment(deployable)
    return {name: evaluate(terraform, expression) for name, expression in told.items()}


def read(kind: type[CommonSettings], values: dict[str, str]) -> CommonSettings:
    """Read settings from these variables and no others."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            patch.delenv(name)
        for name, value in (values | SECRETS).items():
            patch.setenv(name, value)
        return load(kind)


def test_every_variable_that_the_settings_require_is_set_and_no_other(
    deployable: str, values: dict[str, str]
) -> None:
    settings = read(SETTINGS[deployable], values | (LIVE_SECRETS if deployable == "live" else {}))

    assert settings.environment is Environment.PRODUCTION
    assert values.keys() <= {name.upper() for name in SETTINGS[deployable].model_fields}
    assert not values.keys() & LOCAL_ONLY


def test_the_defaults_are_those_of_the_code(terraform: TerraformModule, deployable: str) -> None:
    fields: dict[str, Any] = SETTINGS[deployable].model_fields
    for name, expression in terraform.environment(deployable).items():
        default, field = terraform.default(expression), fields[name.lower()]
        if default is not None and field.default_factory is None:
            assert default == field.default, name


LEAST_MIB = {1: 840, 2: 1024, 4: 2048, 8: 4096}
"""Cloud Run's least for so many CPUs, and with 1 and 2 of them what Kokoro leaves room with."""


def test_as_many_conversions_at_once_as_are_planned_for_such_a_container(
    terraform: TerraformModule,
) -> None:
    memory = int(terraform.default("var.convert.memory").removesuffix("Gi")) * 1024
    default = (int(terraform.default("var.convert.cpu")), memory)
    needs = MemoryNeeds(PROCESS_BYTES + KOKORO_BYTES)
    for cpus, mib in (*LEAST_MIB.items(), default):
        planned = plan(Resources(cpus, mib * MIB), needs).concurrency

        assert planned == terraform.locals["conversions_per_cpu"] * cpus, (cpus, mib)
    assert terraform.locals["hearings_per_cpu"] == HEARINGS_PER_CPU


@pytest.mark.parametrize("seconds", [2, 10, 60])
@pytest.mark.parametrize("max_bytes", [65_536, 8_000_000, 104_857_600])
def test_terraform_and_the_code_know_the_same_memory_of_a_conversion(
    terraform: TerraformModule, seconds: int, max_bytes: int
) -> None:
    expression = terraform.locals["conversion_mib"].replace("local.fetched_conversion_mib", "0")
    for name, value in (("recording_seconds.max", seconds), ("upload_bytes", max_bytes)):
        expression = expression.replace(f"var.limits.{name}", str(value))
    limits = DecodeLimits(max_seconds=seconds, max_bytes=max_bytes)

    assert re.fullmatch(r"(max|ceil|[\d+*/(), .])+", expression)
    calculated = eval(expression, {"max": max, "ceil": math.ceil})  # noqa: S307 - numbers only
    assert calculated == math.ceil(memory_needs(limits).conversion / MIB)


def test_terraform_and_the_code_plan_the_same_memory_for_processes_and_fetched_characters(
    terraform: TerraformModule,
) -> None:
    assert terraform.locals["process_mib"] == (
        f"{PROCESS_BYTES // MIB} + (var.convert.kokoro ? {KOKORO_BYTES // MIB} : 0)"
        " + local.fetched_mib"
    )
    assert terraform.locals["fetched_conversion_mib"] == (
        f"var.characters.bucket == null ? 0 : {FETCHED_CONVERSION_BYTES // MIB}"
    )


@pytest.mark.parametrize(
    ("told", "kinds"),
    [
        ("environment_characters", (ApiSettings, ConvertSettings)),
        ("environment_fetching", (ConvertSettings,)),
        ("environment_default_character", (ApiSettings,)),
        ("environment_app_check", (ApiSettings,)),
        ("environment_compat", (LiveAndCompatSettings,)),
        ("environment_origin", (ConvertSettings, LiveSettings)),
        ("secrets_origin", (ConvertSettings, LiveSettings)),
        ("secret_variables", (LiveAndCompatSettings,)),
        ("environment_own_characters_api", (ApiSettings,)),
        ("environment_own_characters_sweep", (SweepSettings,)),
        ("environment_traces", (ApiSettings, ConvertSettings, LiveSettings, OnUploadSettings)),
    ],
)
def test_the_settings_that_an_option_brings_are_known(
    terraform: TerraformModule, told: str, kinds: tuple[type[CommonSettings], ...]
) -> None:
    names = re.findall(r"\b[A-Z]\w+_[A-Z]+\b", str(terraform.locals[told]))

    assert names
    for kind in kinds:
        assert {name.lower() for name in names} <= kind.model_fields.keys()
