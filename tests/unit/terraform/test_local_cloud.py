"""The local cloud behaves like the one that Terraform makes."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

from infra.local.cloud import provisioning
from infra.local.cloud.memory import Subscription
from infra.local.configuration.environments import choose_addresses
from infra.local.configuration.names import Ports
from infra.local.configuration.options import CloudOptions, LivenessProbe
from shared.runtime.settings import Timeouts

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule


def test_the_converter_has_the_same_liveness_probe(terraform: TerraformModule) -> None:
    service = terraform.resources["google_cloud_run_v2_service", "convert"]
    [template] = service["template"]
    [container] = template["containers"]
    [probe] = container["liveness_probe"]

    assert CloudOptions().liveness == LivenessProbe(
        period_seconds=probe["period_seconds"],
        timeout_seconds=probe["timeout_seconds"],
        failure_threshold=probe["failure_threshold"],
    )


def test_the_sweep_starts_as_often(terraform: TerraformModule) -> None:
    job = terraform.resources["google_cloud_scheduler_job", "sweep"]
    minutes = re.fullmatch(r"\*/(\d+) \* \* \* \*", job["schedule"])

    assert minutes
    assert CloudOptions().sweep_period_seconds == 60 * int(minutes[1])


def test_an_upload_url_works_as_long(terraform: TerraformModule) -> None:
    assert CloudOptions().upload_url_seconds == terraform.default("var.limits.upload_url_seconds")


def test_a_message_is_delivered_as_often_and_with_the_same_pauses(
    terraform: TerraformModule,
) -> None:
    default = {field.name: field.default for field in fields(Subscription)}

    assert default["attempts"] == terraform.default("var.dead_letter.delivery_attempts")
    for pause in ("minimum", "maximum"):
        local = {"minimum": "first", "maximum": "longest"}[pause]
        seconds = float(terraform.locals[f"{pause}_backoff"].rstrip("s"))
        assert default[f"{local}_backoff_seconds"] == seconds


def test_the_same_messages_are_filtered_out(terraform: TerraformModule) -> None:
    with Ports() as ports:
        addresses = choose_addresses(CloudOptions(), ports, emulated=False)
    planned = provisioning.plan_subscriptions(addresses, Timeouts(60))

    filters = {each.topic.rpartition("/")[2]: each.filter for each in planned}

    expected = dict.fromkeys(filters) | {"uploads": terraform.locals["not_overwritten"]}
    assert filters == expected
