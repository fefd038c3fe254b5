"""The module and the product agree: timeouts, CORS, names, indexes and log fields."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Self, cast
from unittest.mock import MagicMock

import pytest
from google.auth.credentials import AnonymousCredentials

from infra.local.cloud import provisioning
from infra.local.cloud.memory import Subscription
from infra.local.configuration.environments import choose_addresses
from infra.local.configuration.names import Ports
from infra.local.configuration.options import CloudOptions, LivenessProbe
from shared.google.storage import CloudStorageBucket, Signer
from shared.google.voices import FirestoreVoices
from shared.runtime.settings import CommonSettings, Timeouts
from shared.voices.voice import ErrorCode, Status
from tests.unit.terraform.reading import MODULE, ROOT

if TYPE_CHECKING:
    from google.cloud.firestore_v1.base_query import FieldFilter
    from google.cloud.storage import Client

    from shared.google.firestore import RenewableClient
    from tests.unit.terraform.reading import TerraformModule


@pytest.mark.parametrize("deadline", [10, 500])
def test_terraform_and_the_code_derive_the_same_chain(
    terraform: TerraformModule, deadline: int
) -> None:
    code = Timeouts(deadline)

    for name, expression in terraform.locals["timeouts"].items():
        found = re.fullmatch(r"var\.convert\.deadline_seconds(?: \+ (\d+))?", expression)
        assert found, expression
        assert getattr(code, name) == deadline + int(found[1] or 0)


def test_the_code_accepts_every_deadline_that_terraform_does(terraform: TerraformModule) -> None:
    metadata = CommonSettings.model_fields["conversion_deadline_seconds"].metadata
    (least,) = (each.ge for each in metadata if hasattr(each, "ge"))
    (most,) = (each.le for each in metadata if hasattr(each, "le"))

    lowest, highest = terraform.locals["rules"]["convert"]["deadline_seconds"]
    assert least <= lowest < highest <= most


async def test_a_browser_may_send_every_header_that_an_upload_must_have(
    terraform: TerraformModule,
) -> None:
    client = MagicMock()
    client.bucket().blob().generate_signed_url.return_value = "https://storage.example.com/object"
    signer = Signer(AnonymousCredentials())
    uploads = CloudStorageBucket(
        cast("Client", client), "uploads", signer, lambda: datetime.now(UTC)
    )

    upload = await uploads.sign_upload(
        "a-recording", content_type="audio/webm", max_bytes=1000, lifetime=timedelta(minutes=1)
    )

    cors = terraform.resources["google_storage_bucket", "uploads"]["cors"][0]
    assert set(upload.headers) <= set(cors["response_header"])
    assert cors["method"] == [upload.method]


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


SAME = {"==", "in"}
"""What asks for values and not for a range: these fields come first in an index."""


class FirestoreClient:
    """Stands for Firestore's client, its collection and its query; notes what is asked for."""

    def __init__(self) -> None:
        self.name = ""
        self.filters: list[tuple[str, str]] = []
        self.order: list[tuple[str, str]] = []

    def collection_group(self, name: str) -> Self:
        self.name = name
        return self

    # The names of the arguments are the library's.
    def where(self, *, filter: FieldFilter) -> Self:  # noqa: A002
        self.filters.append((filter.field_path, filter.op_string))
        return self

    def order_by(self, field: str, direction: str = "ASCENDING") -> Self:
        self.order.append((field, direction))
        return self

    def limit(self, _count: int) -> Self:
        return self

    async def get(self, **_terms: object) -> list[object]:
        return []


async def test_the_index_is_the_one_that_the_sweeps_query_needs(
    terraform: TerraformModule,
) -> None:
    client = FirestoreClient()
    voices = FirestoreVoices(cast("RenewableClient", client))
    await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)

    index = terraform.resources["google_firestore_index", "sweep"]
    fields = [(field["field_path"], field["order"]) for field in index["fields"]]
    equal = [(field, "ASCENDING") for field, operator in client.filters if operator in SAME]

    # Equalities come first, then the field of range and order: what Firestore asks of an index.
    assert fields == equal + client.order
    assert {field for field, operator in client.filters if operator not in SAME} == {"updated_at"}
    assert (index["collection"], index["query_scope"]) == (client.name, "COLLECTION_GROUP")


def test_a_message_counts_as_lost_only_when_no_delivery_is_left(
    terraform: TerraformModule,
) -> None:
    formula = terraform.locals["patience"]
    found = re.fullmatch(
        r"max\((\d+), (\d+) \* \(var\.dead_letter\.delivery_attempts - (\d+)\)\)", formula
    )
    assert found, formula
    least, gap, quick = map(int, found.groups())
    first, longest = (
        int(terraform.locals[name].rstrip("s")) for name in ("minimum_backoff", "maximum_backoff")
    )

    for attempts in range(5, 101):
        backoffs = sum(min(longest, first * 2**tried) for tried in range(attempts - 1))
        assert backoffs <= max(least, gap * (attempts - quick)), attempts


SERVICES = ("api", "convert", "dead_letter", "live", "on_upload", "sweep")


@cache
def source_of(deployable: str) -> str:
    """Return the code that a deployable runs; `live` runs VOICEVOX's routes, too."""
    own = {"live": ("live", "live_and_compat", "compat")}.get(deployable, (deployable,))
    folders = [ROOT / "shared", *(ROOT / "functions" / name for name in own)]
    return "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))


def logs(deployable: str, event: str, field: str = "event") -> bool:
    """Return whether a deployable's code names an event, and a field."""
    source = source_of(deployable)
    return f'"{event}"' in source and f'"{field.partition(".")[0]}"' in source


def watched(terraform: TerraformModule) -> set[str]:
    return set(re.findall(r'event=\\?"(\w+)', str(terraform.locals["alerts_on_logs"])))


def test_a_log_based_metric_names_an_event_and_fields_that_the_code_logs(
    terraform: TerraformModule,
) -> None:
    metrics = {**terraform.locals["counters"], **terraform.locals["whole_durations"]}
    for name, metric in metrics.items():
        deployable = metric.get("service", "local.names.convert").removeprefix("local.names.")
        for field in {*metric.get("labels", {}).values(), metric.get("value", "event")}:
            assert logs(deployable, metric["event"], field), (name, field)


def test_an_alert_watches_only_events_that_the_code_logs(terraform: TerraformModule) -> None:
    events = watched(terraform)

    assert {"unexpected_error", "trainer_crashed"} <= events
    for event in events:
        assert any(logs(name, event) for name in ("convert", "sweep", "train")), event
    assert all(logs(name, "unexpected_error") for name in SERVICES)


def test_the_events_in_the_runbook_are_those_that_metrics_count_or_alerts_watch(
    terraform: TerraformModule,
) -> None:
    text = (MODULE / "runbook.md").read_text()
    queried = re.findall(r'jsonPayload\.event=\(?\\"(\w+)\\"(?: OR \\"(\w+)\\")?', text)
    counted = {counter["event"] for counter in terraform.locals["counters"].values()}

    assert queried
    assert {one for pair in queried for one in pair if one} <= counted | watched(terraform)


def test_the_stages_on_the_dashboard_are_those_that_the_code_measures(
    terraform: TerraformModule,
) -> None:
    measured = re.findall(r'(?:\.stage\(|timed_as=)"(\w+)"', source_of("convert"))

    assert set(terraform.locals["stages"]) == set(measured)


def test_the_errors_that_alarm_the_operator_are_codes_of_voices(
    terraform: TerraformModule,
) -> None:
    assert set(terraform.locals["own_errors"]) <= {code.value for code in ErrorCode}
