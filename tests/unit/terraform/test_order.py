"""The order in which an apply does things."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule


def waits(terraform: TerraformModule, expressions: str) -> bool:
    """Tell whether expressions name a resource, themselves or through local values."""
    named = re.findall(r"\blocal\.(\w+)", expressions)
    told = expressions + "".join(str(terraform.locals[name]) for name in named)
    return re.search(r"(?<!data\.)\bgoogle_\w+\.\w", told) is not None


def test_what_waits_for_no_other_resource_waits_until_the_apis_are_on(
    terraform: TerraformModule,
) -> None:
    at_once = {
        f"{kind}.{name}"
        for (kind, name), body in terraform.resources.items()
        if kind.startswith("google_") and not waits(terraform, str(body))
    }

    assert at_once == {"google_project_service.this"}


def test_what_cannot_go_while_it_is_used_goes_after_the_next_one_came(
    terraform: TerraformModule,
) -> None:
    first = {
        kind
        for (kind, _), body in terraform.resources.items()
        if body.get("lifecycle", [{}])[0].get("create_before_destroy")
    }

    assert first == {"google_compute_managed_ssl_certificate", "google_firebaserules_ruleset"}


def test_a_certificate_for_another_domain_has_another_name(terraform: TerraformModule) -> None:
    certificate = terraform.resources["google_compute_managed_ssl_certificate", "api"]

    assert certificate["managed"] == [{"domains": ["var.custom_domain"]}]
    assert "sha256(var.custom_domain)" in certificate["name"]
