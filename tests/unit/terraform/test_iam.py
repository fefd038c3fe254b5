from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

PROJECT_WIDE = {
    "google_project_iam_member.firestore": "roles/datastore.user",
    "google_project_iam_member.build_logs": "roles/logging.logWriter",
    "google_project_iam_member.build_sources": "roles/storage.objectViewer",
    "google_project_iam_member.traces": "roles/telemetry.tracesWriter",
}


def test_a_role_is_granted_on_the_project_only_where_there_is_nothing_smaller(
    terraform: TerraformModule,
) -> None:
    granted = {
        f"{kind}.{name}": body.get("role")
        for (kind, name), body in terraform.resources.items()
        if kind.startswith("google_project_iam_") and kind != "google_project_iam_custom_role"
    }

    assert granted == PROJECT_WIDE


def test_every_role_on_the_project_but_writing_logs_and_traces_has_a_condition(
    terraform: TerraformModule,
) -> None:
    members = terraform.of_type("google_project_iam_member")

    without = {name for name, body in members.items() if "condition" not in body}
    assert without == {"build_logs", "traces"}


def test_nothing_replaces_the_bindings_that_others_have_made(terraform: TerraformModule) -> None:
    kinds = {kind for kind, _ in terraform.resources}

    assert not [kind for kind in kinds if kind.endswith(("_iam_binding", "_iam_policy"))]


def test_the_public_may_only_call_the_api_and_read_the_page(
    terraform: TerraformModule,
) -> None:
    public = {
        name: body
        for (_, name), body in terraform.resources.items()
        if str(body.get("member", "")).startswith("all")
    }

    assert public.keys() == {"page_readers", "public_api"}
    open_to_all = "var.public_api && !var.domain_restricted_sharing ? 1 : 0"
    assert public["public_api"]["count"] == open_to_all
    assert public["page_readers"]["count"] == "local.page"
    assert public["page_readers"]["bucket"] == "google_storage_bucket.page[0].name"
    assert public["public_api"]["name"] == 'google_cloudfunctions2_function.this["api"].name'
    text = "".join(path.read_text() for path in MODULE.glob("*.tf"))
    assert text.count('"allUsers"') == len(public)
    assert "allAuthenticatedUsers" not in text


def test_an_account_signs_for_itself_only(terraform: TerraformModule) -> None:
    members = terraform.of_type("google_service_account_iam_member")
    creators = {
        name: body
        for name, body in members.items()
        if body["role"] == "roles/iam.serviceAccountTokenCreator"
    }

    assert creators.keys() == {"signs_for_itself"}
    itself = creators["signs_for_itself"]
    assert itself["service_account_id"] == "google_service_account.this[each.key].name"
    assert itself["member"] == "google_service_account.this[each.key].member"


def test_accounts_that_only_call_or_sweep_have_no_other_permission(
    terraform: TerraformModule,
) -> None:
    granted = {
        name: body.get("for_each", "")
        for (kind, name), body in terraform.resources.items()
        if "_iam_" in kind and "sweep" in str(body)
    }

    assert granted.keys() == {
        "conversions",
        "erases_own_characters",
        "firestore",
        "reads_uploads",
        "starts_training",
        "sweep_timer",
    }
    assert '"sweep_timer"' not in str([each for each in granted.values() if each])


def test_no_service_account_has_a_key(terraform: TerraformModule) -> None:
    assert terraform.of_type("google_service_account_key") == {}


def test_every_subscription_lives_for_ever_and_keeps_messages_for_a_week(
    terraform: TerraformModule,
) -> None:
    subscriptions = terraform.of_type("google_pubsub_subscription")

    assert subscriptions.keys() == {"work", "dead_push", "dead_retained"}
    for body in subscriptions.values():
        assert body["expiration_policy"] == [{"ttl": ""}]
        assert body["message_retention_duration"] == "local.retention"
    for name in ("work", "dead_push"):
        assert "oidc_token" in subscriptions[name]["push_config"][0]
    assert "dead_letter_policy" in subscriptions["work"]


def test_no_bucket_but_the_pages_can_be_made_public(terraform: TerraformModule) -> None:
    for name, body in terraform.of_type("google_storage_bucket").items():
        assert (body["public_access_prevention"] == "enforced") == (name != "page")
        assert body["uniform_bucket_level_access"] is True


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
    # These are granted on the billing account and on the key, and the last reads the credentials.
    elsewhere = {
        "google_billing_budget",
        "google_client_config",
        "google_kms_crypto_key_iam_member",
    }

    assert {kind for _, *kinds in listed for kind in kinds} == (kinds - elsewhere) | programs
    roles = [role for role, *_ in listed]
    assert roles == sorted(set(roles))
    assert not {"roles/owner", "roles/editor"} & set(roles)


def test_every_program_that_the_apply_runs_gets_terraforms_own_credentials(
    terraform: TerraformModule,
) -> None:
    run = {
        name: provisioner["local-exec"]["environment"]
        for name, body in terraform.of_type("terraform_data").items()
        for provisioner in body.get("provisioner", [])
    }

    assert {"image", "invoker_check"} <= run.keys()
    for name, environment in run.items():
        assert str(environment).startswith("merge(local.gcloud_credentials, "), name
    (token,) = terraform.locals["gcloud_credentials"].items()
    assert token[0] == "CLOUDSDK_AUTH_ACCESS_TOKEN"
    assert "data.google_client_config.this.access_token" in token[1]
