from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import hcl2
import pytest

from tests.unit.terraform.reading import MODULE, ROOT, plain

if TYPE_CHECKING:
    from pathlib import Path

ROOTS = ("deployment", "examples/full")
GUIDE = ROOT / "docs/deploy.md"
PAGE = ROOT / "web/page"


def read_root(name: str) -> dict[str, Any]:
    with (MODULE / name / "main.tf").open() as file:
        content: dict[str, Any] = plain(hcl2.load(file))
    return content


def names(blocks: list[dict[str, Any]]) -> set[str]:
    return {name for block in blocks for name in block}


@pytest.mark.parametrize("name", ROOTS)
def test_a_person_who_is_signed_in_uses_the_quota_of_the_project(name: str) -> None:
    providers = read_root(name)["provider"]

    assert names(providers) == {"google", "google-beta"}
    for block in providers:
        for settings in block.values():
            assert settings["billing_project"] == "var.project_id"
            assert settings["user_project_override"] is True


@pytest.mark.parametrize(("guide", "typed_in"), [(GUIDE, ROOT), (PAGE / "README.md", PAGE)])
def test_the_page_is_built_with_the_output_of_the_deployment(guide: Path, typed_in: Path) -> None:
    asked = re.findall(
        r"PAGE_CONFIG=\$\(terraform -chdir=(\S+) output -raw (\w+)\) &&", guide.read_text()
    )

    assert [(typed_in / folder).resolve() for folder, _ in asked] == [MODULE / "deployment"]
    assert [output for _, output in asked] == ["page_configuration"]
    assert "PAGE_CONFIG=$PAGE_CONFIG npm run build" in guide.read_text()
