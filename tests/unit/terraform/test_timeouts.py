from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from shared.runtime.settings import CommonSettings, Timeouts

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule

PUB_SUB_LIMIT = 600


def evaluate(expression: str, deadline: int) -> int:
    found = re.fullmatch(r"var\.conversion_deadline_seconds(?: \+ (\d+))?", expression)
    assert found, expression
    return deadline + int(found[1] or 0)


@pytest.mark.parametrize("deadline", [10, 60, 500])
def test_terraform_and_the_code_derive_the_same_chain(
    terraform: TerraformModule, deadline: int
) -> None:
    derived = {
        name: evaluate(expression, deadline)
        for name, expression in terraform.locals["timeouts"].items()
    }
    code = Timeouts(deadline)

    assert derived == {
        "conversion_deadline": code.conversion_deadline,
        "request": code.request,
        "acknowledgement": code.acknowledgement,
    }
    assert code.conversion_deadline < code.request <= code.acknowledgement <= PUB_SUB_LIMIT


def test_the_code_accepts_every_deadline_that_terraform_does(terraform: TerraformModule) -> None:
    condition = terraform.variables["conversion_deadline_seconds"]["validation"][0]["condition"]
    lowest, highest = map(int, re.findall(r"[<>]= (\d+)", condition))
    ends = {"ge": lowest, "le": highest}
    field = CommonSettings.model_fields["conversion_deadline_seconds"]
    accepted = {
        name: getattr(limit, name)
        for limit in field.metadata
        for name in ends
        if hasattr(limit, name)
    }

    assert accepted["ge"] <= lowest < highest <= accepted["le"]
