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


def test_every_variable_and_every_part_of_one_has_an_effect(terraform: TerraformModule) -> None:
    files = [path for path in MODULE.glob("*.tf") if path.name != "variables.tf"]
    used = "".join(path.read_text() for path in files)
    for name, variable in terraform.variables.items():
        assert re.search(rf"\bvar\.{name}\b", used), name
        if variable["type"].startswith("object"):
            for part in re.findall(r"(\w+) = optional", variable["type"]):
                assert re.search(rf"\bvar\.{name}\.{part}\b", used), (name, part)
