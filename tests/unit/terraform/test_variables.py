from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule


def test_variables_and_outputs_stand_in_alphabetical_order(terraform: TerraformModule) -> None:
    outputs = re.findall(r'^output "(\w+)"', (MODULE / "outputs.tf").read_text(), re.MULTILINE)

    assert list(terraform.variables) == sorted(terraform.variables)
    assert outputs == sorted(outputs)


def test_every_variable_has_a_type_and_a_description(terraform: TerraformModule) -> None:
    for name, variable in terraform.variables.items():
        assert variable["type"], name
        assert variable["description"].endswith("."), name


def test_every_variable_that_can_have_a_bad_value_refuses_it(terraform: TerraformModule) -> None:
    without = {name for name, body in terraform.variables.items() if "validation" not in body}

    assert {terraform.variables[name]["type"] for name in without} == {"bool"}


def test_a_refusal_names_the_variable_and_says_what_to_write(terraform: TerraformModule) -> None:
    for name, variable in terraform.variables.items():
        for rule in variable.get("validation", []):
            assert rule["error_message"].startswith(name), name
            assert len(rule["error_message"]) > len(name) + 25, name


def test_every_refusal_is_tried(terraform: TerraformModule) -> None:
    tried = (MODULE / "tests/variables.tftest.hcl").read_text()
    for name, variable in terraform.variables.items():
        rules = len(variable.get("validation", []))
        assert len(re.findall(rf"\bvar\.{name}\b", tried)) >= rules, name
