from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule


def test_every_variable_that_can_have_a_bad_value_refuses_it_and_says_what_to_write(
    terraform: TerraformModule,
) -> None:
    tried = (MODULE / "tests/variables.tftest.hcl").read_text()
    for name, variable in terraform.variables.items():
        rules = variable.get("validation", [])
        assert rules or variable["type"] == "bool", name
        assert len(re.findall(rf"\bvar\.{name}\b", tried)) >= len(rules), name
        for rule in rules:
            assert rule["error_message"].startswith(name), name
            assert len(rule["error_message"]) > len(name) + 25, name


def test_every_variable_and_every_part_of_one_has_an_effect(terraform: TerraformModule) -> None:
    files = [path for path in MODULE.glob("*.tf") if path.name != "variables.tf"]
    used = "".join(path.read_text() for path in files)
    for name, variable in terraform.variables.items():
        assert re.search(rf"\bvar\.{name}\b", used), name
        if variable["type"].startswith("object"):
            for part in re.findall(r"(\w+) = optional", variable["type"]):
                assert re.search(rf"\bvar\.{name}\.{part}\b", used), (name, part)
