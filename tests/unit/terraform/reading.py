"""Reading the Terraform module as data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2

from infra.terraform.generation import read_blocks

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "infra/terraform"


@dataclass(frozen=True)
class TerraformModule:
    """The module's files, with expressions as they are written."""

    locals: dict[str, Any]
    resources: dict[tuple[str, str], dict[str, Any]]
    variables: dict[str, dict[str, Any]]

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return {name: body for (one, name), body in self.resources.items() if one == kind}

    def environment(self, deployable: str) -> dict[str, str]:
        own = self.locals[f"environment_{deployable}"]
        return {**self.locals["environment_common"], **own}

    def default(self, expression: str) -> Any:
        """Return the default of the setting that an expression is, None if it has none."""
        found = re.fullmatch(r"(?:tostring\()?var\.(\w+)(?:\.([\w.]+))?\)?", expression)
        if found is None:
            return None
        if found[2] is None:
            return self.variables[found[1]].get("default")
        groups = read_blocks("variable", (MODULE / "variables.tf").read_text())
        (group,) = (one for one in groups if one.name == found[1])
        (default,) = (one.default for one in group.settings() if one.path == found[2])
        return None if default is None else json.loads(default)


def plain(value: Any) -> Any:
    """Take the parser's quotes and its ${} off, and unpack blocks of one."""
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items() if key != "__is_block__"}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, str):
        return value
    if len(value) > 1 and value.startswith('"') and value.endswith('"'):
        return value[1:-1].replace('\\"', '"')
    return value[2:-1] if value.startswith("${") and value.endswith("}") else value


def read_module() -> TerraformModule:
    module = TerraformModule({}, {}, {})
    for path in sorted(MODULE.glob("*.tf")):
        with path.open() as file:
            content = plain(hcl2.load(file))
        for block in content.get("locals", []):
            module.locals.update(block)
        for block in content.get("resource", []):
            for kind, named in block.items():
                module.resources.update({(kind, name): body for name, body in named.items()})
        for block in content.get("variable", []):
            module.variables.update(block)
    return module
