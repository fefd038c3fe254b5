"""Writes what follows from the module's own variables and outputs.

- `deployment/`: a root module that takes every variable from `terraform.tfvars`, passes it on, and
  gives every output. A variable that is added to the module can be set there at once.
- the tables of inputs and outputs in README.md.
- `deployment/tests/pairs.tftest.hcl`: see `pairs`.

A test compares the files with what this writes.

    python -m infra.terraform.generated
"""
# ruff: noqa: T201 - a command for a terminal

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.terraform.pairs import pairs_test

MODULE: Final = Path(__file__).parent
DEPLOYMENT: Final = MODULE / "deployment"
BEGIN: Final = "<!-- inputs and outputs: begin -->"
END: Final = "<!-- inputs and outputs: end -->"
NOTICE: Final = (
    "# Written by python -m infra.terraform.generated; change the module's {} instead.\n\n"
)


@dataclass(frozen=True)
class Block:
    """A variable or an output of the module.

    Attributes:
        name: its name.
        body: the text between its braces, formatted by `terraform fmt`.
    """

    name: str
    body: str

    def argument(self, name: str) -> str | None:
        """Return the expression of an argument as it is written, None if it has none."""
        found = re.search(
            rf"^  {name} += (.*?)(?=\n  [a-z]|\n\n|\n\Z)", self.body, re.MULTILINE | re.DOTALL
        )
        return re.sub(r"\n  ", "\n", found[1]).strip() if found else None

    @property
    def description(self) -> str:
        """The description without its quotes."""
        written = self.argument("description") or ""
        return written.strip('"').replace('\\"', '"').replace("$${", "${")


def read_blocks(kind: str, text: str) -> list[Block]:
    """Return the blocks of a kind ("variable", "output") in a formatted file, in their order."""
    found = re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}$', text, re.MULTILINE | re.DOTALL)
    return [Block(name, body) for name, body in found]


def root_variables(variables: list[Block]) -> str:
    """Return the declarations of a root that has the same variables; the module checks values."""
    without_checks = [
        (one.name, re.sub(r"\n*  validation {\n.*?\n  }\n", "\n", one.body, flags=re.DOTALL))
        for one in variables
    ]
    return NOTICE.format("variables.tf") + "\n".join(
        f'variable "{name}" {{\n{body.rstrip()}\n}}\n' for name, body in without_checks
    )


def root_module(variables: list[Block]) -> str:
    """Return the module's call with every variable passed on."""
    width = max(len(one.name) for one in variables)
    lines = "".join(f"  {one.name.ljust(width)} = var.{one.name}\n" for one in variables)
    head = NOTICE.format("variables.tf")
    return f'{head}module "voice_avatar" {{\n  source = "../"\n\n{lines}}}\n'


def root_outputs(outputs: list[Block]) -> str:
    """Return the declarations that hand the module's outputs out."""
    return NOTICE.format("outputs.tf") + "\n".join(
        f'output "{one.name}" {{\n  description = {one.argument("description")}\n'
        f"  value       = module.voice_avatar.{one.name}\n}}\n"
        for one in outputs
    )


def tables(variables: list[Block], outputs: list[Block]) -> str:
    """Return the tables of inputs and outputs in Markdown."""
    inputs = [
        f"| `{one.name}` | {_cell(one.description)} | {_code(one.argument('type'))} "
        f"| {_code(one.argument('default')) or '**required**'} |"
        for one in variables
    ]
    results = [f"| `{one.name}` | {_cell(one.description)} |" for one in outputs]
    return "\n".join(
        [
            "| input | | type | default |",
            "|---|---|---|---|",
            *inputs,
            "",
            "| output | |",
            "|---|---|",
            *results,
        ]
    )


def generated() -> dict[Path, str]:
    """Return the files and the text that each must have."""
    variables = read_blocks("variable", (MODULE / "variables.tf").read_text())
    outputs = read_blocks("output", (MODULE / "outputs.tf").read_text())
    readme = (MODULE / "README.md").read_text()
    before, _, rest = readme.partition(BEGIN)
    after = rest.partition(END)[2]
    return {
        DEPLOYMENT / "variables.tf": root_variables(variables),
        DEPLOYMENT / "module.tf": root_module(variables),
        DEPLOYMENT / "outputs.tf": root_outputs(outputs),
        DEPLOYMENT / "tests/pairs.tftest.hcl": pairs_test(),
        MODULE / "README.md": f"{before}{BEGIN}\n{tables(variables, outputs)}\n{END}{after}",
    }


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(expression: str | None) -> str:
    if expression is None:
        return ""
    one_line = re.sub(r"\s+", " ", re.sub(r"\n\s*(?=})", " ", re.sub(r"\n\s+", ", ", expression)))
    return f"`{one_line.replace('({, ', '({ ').replace('|', chr(92) + '|')}`"


def main() -> int:
    """Write the files and return the exit code."""
    for path, text in generated().items():
        path.write_text(text)
        print(path.relative_to(MODULE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
