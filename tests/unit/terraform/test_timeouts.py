from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from shared.runtime.settings import CommonSettings, Timeouts

if TYPE_CHECKING:
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
