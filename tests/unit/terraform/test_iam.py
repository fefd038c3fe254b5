from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

# The role, and whether a condition names what it is for.
PROJECT_WIDE = {
    "google_project_iam_member.firestore": ("roles/datastore.user", True),
    "google_project_iam_member.build_logs": ("roles/logging.logWriter", False),
    "google_project_iam_member.build_sources": ("roles/storage.objectViewer", True),
    "google_project_iam_member.traces": ("roles/telemetry.tracesWriter", False),
}


def test_a_role_is_granted_on_the_project_only_where_there_is_nothing_smaller(
    terraform: TerraformModule,
) -> None:
    granted = {
        f"{kind}.{name}": (body.get("role"), "condition" in body)
        for (kind, name), body in terraform.resources.items()
        if kind.startswith("google_project_iam_") and kind != "google_project_iam_custom_role"
    }

    assert granted == PROJECT_WIDE


def test_nothing_replaces_the_bindings_that_others_have_made_and_no_account_has_a_key(
    terraform: TerraformModule,
) -> None:
    kinds = {kind for kind, _ in terraform.resources}

    assert not [kind for kind in kinds if kind.endswith(("_iam_binding", "_iam_policy"))]
    assert "google_service_account_key" not in kinds


def test_the_public_may_only_call_the_api_and_read_the_page(
    terraform: TerraformModule,
) -> None:
    public = {
        name: body
        for (_, name), body in terraform.resources.items()
        if str(body.get("member", "")).startswith("all")
    }

    assert public.keys() == {"page_readers", "public_api"}
    text = "".join(path.read_text() for path in MODULE.glob("*.tf"))
    assert text.count('"allUsers"') == len(public)
    assert "allAuthenticatedUsers" not in text


def test_a_deployers_roles_are_for_every_kind_of_resource_and_no_other() -> None:
    lines = (MODULE / "deployer-roles.txt").read_text().splitlines()
    listed = [line.split() for line in lines if not line.startswith("#")]
    text = "".join(path.read_text() for path in MODULE.glob("*.tf"))
    kinds = set(re.findall(r'^(?:resource|data) "(google_\w+)"', text, re.MULTILINE))
    programs = {
        f"terraform_data.{name}"
        for name, body in re.findall(
            r'^resource "terraform_data" "(\w+)" {\n(.*?)^}', text, re.MULTILINE | re.DOTALL
        )
        if "local-exec" in body
    }
    # These are granted on the billing account and on the key.
    elsewhere = {
        "google_billing_budget",
        "google_kms_crypto_key_iam_member",
    }

    assert {kind for _, *kinds in listed for kind in kinds} == (kinds - elsewhere) | programs
    roles = [role for role, *_ in listed]
    assert roles == sorted(set(roles))
    assert not {"roles/owner", "roles/editor"} & set(roles)


RESOURCE = r"(?<!data\.)\b((?:(?:google|random|terraform|time)_\w+|local)\.\w+)"
SECRETS_OF = {
    "google_cloud_run_v2_service.convert": {"c2pa", "hmac", "log_key", "watermark"},
    "google_cloud_run_v2_service.live": {
        *("c2pa", "compat", "hmac", "live_tickets", "log_key", "watermark"),
    },
    "google_cloudfunctions2_function.this": {"hmac", "live_tickets", "log_key"},
}


def before(terraform: TerraformModule, resource: str) -> set[str]:
    seen, unread = set[str](), [resource]
    while unread:
        kind, _, name = unread.pop().partition(".")
        body = terraform.locals[name] if kind == "local" else terraform.resources[kind, name]
        for each in set(re.findall(RESOURCE, str(body))) - seen:
            kind, _, name = each.partition(".")
            if name in terraform.locals or (kind, name) in terraform.resources:
                unread.append(each)
                seen.add(each)
    return seen


def test_everything_waits_until_the_apis_are_known(terraform: TerraformModule) -> None:
    resources = {f"{kind}.{name}" for kind, name in terraform.resources if "google_" in kind}

    at_once = {one for one in resources if "time_sleep.apis" not in before(terraform, one)}

    assert at_once == {"google_project_service.this"}


@pytest.mark.parametrize(
    ("made", "wait", "users"),
    [
        # A build begins in the second in which the deployment does; a revision runs as its account,
        # and signs as it, when it starts.
        (
            """
            google_artifact_registry_repository_iam_member.build
            google_artifact_registry_repository_iam_member.functions_agent
            google_project_iam_member.build_logs
            google_project_iam_member.build_sources
            google_service_account_iam_member.signs_for_itself
            google_storage_bucket_iam_member.build_sources
            """,
            "accounts",
            """
            google_cloud_run_v2_service.convert
            google_cloud_run_v2_service.live
            google_cloudfunctions2_function.this
            terraform_data.image
            """,
        ),
        # Monitoring looks a metric up when an alert is made.
        (
            "google_logging_metric.counter google_logging_metric.duration",
            "metrics",
            "google_monitoring_alert_policy.metric google_monitoring_dashboard.this",
        ),
        # Cloud Storage publishes to the topic when it is told of it.
        (
            "google_pubsub_topic_iam_member.storage_agent",
            "storage_agent",
            "google_storage_notification.uploads google_storage_notification.shard",
        ),
        # A key is used when the resource is made.
        (
            "google_kms_crypto_key_iam_member.agents",
            "key_users",
            """
            google_artifact_registry_repository.this
            google_cloud_run_v2_service.convert
            google_cloudfunctions2_function.this
            google_firestore_database.this
            google_pubsub_topic.dead
            google_pubsub_topic.work
            google_storage_bucket.page
            google_storage_bucket.results
            google_storage_bucket.sources
            google_storage_bucket.uploads
            """,
        ),
    ],
)
def test_what_google_applies_slowly_is_waited_for_before_it_is_used(
    terraform: TerraformModule, made: str, wait: str, users: str
) -> None:
    assert set(made.split()) <= before(terraform, f"time_sleep.{wait}")
    for user in users.split():
        assert f"time_sleep.{wait}" in before(terraform, user), user


@pytest.mark.parametrize("service", SECRETS_OF)
def test_a_service_is_made_when_it_may_read_its_secrets(
    terraform: TerraformModule, service: str
) -> None:
    readers = {
        f"google_secret_manager_secret_iam_member.reads_{name}" for name in SECRETS_OF[service]
    }

    assert readers <= before(terraform, service)
