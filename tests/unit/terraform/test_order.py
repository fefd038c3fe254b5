"""The order in which an apply does things."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule


RESOURCE = r"(?<!data\.)\b((?:google|random|terraform|time)_\w+\.\w+)"


def expanded(terraform: TerraformModule, expressions: str) -> str:
    """Return expressions with those of the local values that they use, and those of these."""
    parts, unread, seen = [], [expressions], set[str]()
    while unread:
        parts.append(unread.pop())
        used = set(re.findall(r"\blocal\.(\w+)", parts[-1])) & terraform.locals.keys()
        unread += [str(terraform.locals[name]) for name in used - seen]
        seen |= used
    return " ".join(parts)


def before(terraform: TerraformModule, resource: str) -> set[str]:
    """Return all resources that are made before one."""
    seen, unread = set[str](), [resource]
    while unread:
        kind, name = unread.pop().split(".")
        named = set(re.findall(RESOURCE, expanded(terraform, str(terraform.resources[kind, name]))))
        fresh = {one for one in named if tuple(one.split(".")) in terraform.resources} - seen
        seen |= fresh
        unread += fresh
    return seen


def test_everything_waits_until_the_apis_are_known(terraform: TerraformModule) -> None:
    resources = {
        f"{kind}.{name}" for kind, name in terraform.resources if kind.startswith("google_")
    }
    at_once = {one for one in resources if "time_sleep.apis" not in before(terraform, one)}

    assert at_once == {"google_project_service.this"}


@pytest.mark.parametrize(
    ("wait", "resource"),
    [
        # A build begins in the second in which the deployment does.
        ("time_sleep.accounts", "google_cloudfunctions2_function.this"),
        ("time_sleep.accounts", "terraform_data.image"),
        # A revision runs as its account, and signs as it, when it starts.
        ("time_sleep.accounts", "google_cloud_run_v2_service.convert"),
        # Monitoring looks a metric up when an alert is made.
        ("time_sleep.metrics", "google_monitoring_alert_policy.errors"),
        ("time_sleep.metrics", "google_monitoring_alert_policy.lost"),
        ("time_sleep.metrics", "google_monitoring_alert_policy.wait"),
        ("time_sleep.metrics", "google_monitoring_dashboard.this"),
        # Cloud Storage publishes to the topic when it is told of it.
        ("time_sleep.storage_agent", "google_storage_notification.uploads"),
        # A key is used when the resource is made.
        ("time_sleep.key_users", "google_artifact_registry_repository.this"),
        ("time_sleep.key_users", "google_cloud_run_v2_service.convert"),
        ("time_sleep.key_users", "google_cloudfunctions2_function.this"),
        ("time_sleep.key_users", "google_firestore_database.this"),
        ("time_sleep.key_users", "google_pubsub_topic.dead"),
        ("time_sleep.key_users", "google_pubsub_topic.work"),
        ("time_sleep.key_users", "google_storage_bucket.page"),
        ("time_sleep.key_users", "google_storage_bucket.results"),
        ("time_sleep.key_users", "google_storage_bucket.sources"),
        ("time_sleep.key_users", "google_storage_bucket.uploads"),
    ],
)
def test_resources_wait_for_settings_that_take_time_to_apply_everywhere(
    terraform: TerraformModule, wait: str, resource: str
) -> None:
    kind, name = resource.split(".")

    assert wait in terraform.resources[kind, name]["depends_on"]


@pytest.mark.parametrize(
    ("made", "wait"),
    [
        ("google_artifact_registry_repository_iam_member.build", "time_sleep.accounts"),
        ("google_kms_crypto_key_iam_member.agents", "time_sleep.key_users"),
        ("google_logging_metric.counter", "time_sleep.metrics"),
        ("google_logging_metric.duration", "time_sleep.metrics"),
        ("google_project_iam_member.build_logs", "time_sleep.accounts"),
        ("google_project_iam_member.build_sources", "time_sleep.accounts"),
        ("google_project_service.this", "time_sleep.apis"),
        ("google_pubsub_topic_iam_member.storage_agent", "time_sleep.storage_agent"),
        ("google_service_account_iam_member.signs_for_itself", "time_sleep.accounts"),
        ("google_storage_bucket_iam_member.build_sources", "time_sleep.accounts"),
    ],
)
def test_a_wait_begins_when_what_it_waits_for_was_made(
    terraform: TerraformModule, made: str, wait: str
) -> None:
    kind, name = wait.split(".")

    assert made in terraform.resources[kind, name]["depends_on"]


READERS = {
    "google_cloud_run_v2_service.convert": {"c2pa", "hmac", "log_key", "watermark"},
    "google_cloud_run_v2_service.live": {
        "c2pa",
        "compat",
        "hmac",
        "live_tickets",
        "log_key",
        "watermark",
    },
    "google_cloudfunctions2_function.this": {"hmac", "live_tickets", "log_key"},
}
"""Which secrets each service reads when it starts."""


@pytest.mark.parametrize("service", READERS)
def test_a_service_is_made_when_it_may_read_its_secrets(
    terraform: TerraformModule, service: str
) -> None:
    readers = {f"google_secret_manager_secret_iam_member.reads_{one}" for one in READERS[service]}

    assert readers <= before(terraform, service)


def test_whoever_may_read_a_secret_does_when_a_service_starts(terraform: TerraformModule) -> None:
    readers = set(terraform.of_type("google_secret_manager_secret_iam_member"))

    assert readers == {f"reads_{one}" for names in READERS.values() for one in names}


def test_a_wait_is_not_repeated_by_a_later_apply_that_makes_nothing_new(
    terraform: TerraformModule,
) -> None:
    for name, body in terraform.of_type("time_sleep").items():
        assert body["triggers"], name
        assert "timestamp" not in str(body), name


def test_the_alerts_on_metrics_of_our_own_are_the_ones_that_wait(
    terraform: TerraformModule,
) -> None:
    for name, body in terraform.of_type("google_monitoring_alert_policy").items():
        ours = re.search(
            r"local\.metric\.|google_monitoring_slo", str(body.get("conditions", body))
        )
        assert ("time_sleep.metrics" in body.get("depends_on", [])) == bool(ours), name


def test_the_invoker_check_is_set_again_after_each_deployment_of_the_api(
    terraform: TerraformModule,
) -> None:
    setting = terraform.resources["terraform_data", "invoker_check"]

    again = setting["lifecycle"][0]["replace_triggered_by"]
    assert again == ['google_cloudfunctions2_function.this["api"]']


def test_what_cannot_go_while_it_is_used_goes_after_the_next_one_came(
    terraform: TerraformModule,
) -> None:
    first = {
        kind
        for (kind, _), body in terraform.resources.items()
        if body.get("lifecycle", [{}])[0].get("create_before_destroy")
    }

    assert first == {
        "google_compute_backend_bucket",
        "google_compute_backend_service",
        "google_compute_managed_ssl_certificate",
        "google_compute_security_policy",
        "google_firebaserules_ruleset",
        "google_firestore_index",
        "google_monitoring_notification_channel",
    }


def test_a_certificate_for_other_domains_has_another_name(terraform: TerraformModule) -> None:
    certificate = terraform.resources["google_compute_managed_ssl_certificate", "api"]

    assert certificate["managed"] == [{"domains": "local.domains"}]
    assert 'sha256(join(",", local.domains))' in certificate["name"]


def test_a_role_is_not_taken_away_because_something_is_read_again(
    terraform: TerraformModule,
) -> None:
    """What is read after a change is unknown in the plan, and an unknown member is a new one."""
    for (kind, name), body in terraform.resources.items():
        if "_iam_" in kind and "member" in body:
            member = str(body["member"])
            for local in re.findall(r"local\.(\w+)", member):
                member += str(terraform.locals[local])
            assert "data.google_storage_project_service_account" not in member, name
