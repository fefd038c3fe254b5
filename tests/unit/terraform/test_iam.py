from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
