"""Writes what follows from the module's own variables and outputs.

- `deployment/`: a root module that passes every group of settings on, refuses settings that no
  group has, and gives every output.
- the tables of inputs and outputs in README.md.
- `deployment/tests/pairs.tftest.hcl`: see `pairs`.

A test compares the files with what this writes.

    python -m infra.terraform.generation
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


OPTIONS: Final = {
    "monitoring.emails": '["operator@example.com"]',
    "app_check": '{ app_id = "1:123456789012:web:0123456789abcdef",'
    ' site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }',
    "convert.busy_hours": "{ noon = { from = 11, to = 13, min_instances = 2 } }",
    "characters.bucket": "{}",
    "compat": '{ keys = ["bot"] }',
    "content_credentials": '{ certificates = "-----BEGIN CERTIFICATE-----",'
    ' kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k'
    '/cryptoKeyVersions/1" }',
    "convert.gpu": '"nvidia-l4"',
    "domain.name": '"voice.example.com"',
    "firebase_authentication": "{}",
    "images.attestation": '"dry-run"',
    "live": '{ cpu = "4", memory = "16Gi" }',
    "monitoring.monthly_budget": "50",
    "characters.own": '{ image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train'
    f'@sha256:{"1" * 64}" }}',
    "domain.page_folder": '"../tests/page"',
    "signing.method": '"hmac"',
    "traces": "{ ratio = 0.1 }",
    "watermark": "{ key_rotation = 1 }",
}
"""Each option that makes resources, and the value that switches it on.

`NEEDS` says which of them needs another one, and brings it with it.
"""

NEEDS: Final = {
    "compat": "live",
    "characters.own": "characters.bucket",
    "domain.page_folder": "domain.name",
}

CONSTANT: Final = {
    "allowed_origins": '["https://www.example.com"]',
    "convert.cpu": '"4"',
    "convert.image": '"europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:'
    + "0" * 64
    + '"',
    "convert.max_instances": "3",
    "convert.memory": '"16Gi"',
    "convert.min_instances": "0",
    "project_id": '"demo-project"',
    "quota": "{ cpus = 100, memory_gib = 200 }",
    "region": '"europe-west1"',
}

HEAD: Final = """\
# Written by python -m infra.terraform.generation; infra/terraform/generation.py says what it tries.

mock_provider "archive" {}
mock_provider "google" {
  source = "./tests/mocks"
}
mock_provider "google-beta" {
  source = "../tests/mocks-beta"
}
mock_provider "random" {}
mock_provider "time" {}
"""

State: TypeAlias = frozenset[str]


def switched(before: State, after: State) -> dict[str, str]:
    """Plan the state of each option: "on", "off" (is switched so), "stays on", "stays off"."""
    return {
        name: ("stays on" if name in before else "on")
        if name in after
        else ("off" if name in before else "stays off")
        for name in OPTIONS
    }


def wanted() -> set[tuple[str, str, str, str]]:
    """Return the pairs of switches that are tried: option, what happens, option, what happens."""
    changes = ("on", "off")
    together = [(one, other) for one in changes for other in changes]
    beside = [pair for change in changes for pair in ((change, "stays on"), ("stays on", change))]
    return {
        (first, one, second, other)
        for first, second in combinations(OPTIONS, 2)
        for one, other in together + beside
        # What an option needs can be neither switched off beside it nor be off.
        if possible(first, one, second, other) and possible(second, other, first, one)
    }


def possible(name: str, change: str, needed: str, of_needed: str) -> bool:
    """Return whether an option can be switched so while another one that it may need is."""
    if NEEDS.get(name) != needed:
        return True
    before = change not in {"off", "stays on"} or of_needed in {"off", "stays on"}
    after = change not in {"on", "stays on"} or of_needed in {"on", "stays on"}
    return before and after


def tried(states: Sequence[State]) -> set[tuple[str, str, str, str]]:
    """Return the pairs of switches that a sequence of states tries."""
    return {
        (first, what[first], second, what[second])
        for before, after in pairwise(states)
        for what in [switched(before, after)]
        for first, second in combinations(OPTIONS, 2)
    }


def choose_states(seed: int = 7) -> list[State]:
    """Return states, from nothing, that try every wanted pair: greedily, the same at each call.

    The seed is the one of forty with the fewest states: each takes seconds.
    """
    choice = random.Random(seed)  # noqa: S311 - not a secret
    states: list[State] = [frozenset(), closed(OPTIONS), frozenset()]
    left = wanted() - tried(states)
    while left:
        candidates = [
            closed(name for name in OPTIONS if choice.random() < 0.5)  # noqa: PLR2004 - a coin
            for _ in range(400)
        ]
        best = max(candidates, key=lambda state: len(tried([states[-1], state]) & left))
        left -= tried([states[-1], best])
        states.append(best)
    return states


def closed(names: Iterable[str]) -> State:
    """Return options with those that they need."""
    chosen = set(names)
    return frozenset(chosen | {NEEDS[name] for name in chosen if name in NEEDS})


def pairs_test() -> str:
    runs = "".join(_run(index, state) for index, state in enumerate(choose_states()[1:], start=1))
    return f"{HEAD}\nvariables {{\n{assigned(CONSTANT, '  ')}}}\n{runs}"


def _run(index: int, state: State) -> str:
    chosen = {name: OPTIONS[name] for name in OPTIONS if name in state}
    lines = assigned(chosen, "    ")
    variables = f"\n  variables {{\n{lines}  }}\n" if lines else ""
    return f'\nrun "state_{index:02}" {{{variables or " "}}}\n'.replace("{ }", "{}")


def assigned(values: Mapping[str, str], indent: str) -> str:
    """Return lines of HCL that assign values to settings, "group.name" or "name"."""
    groups: dict[str, list[str]] = {}
    for path, value in values.items():
        group, _, name = path.partition(".")
        groups.setdefault(group, []).append(f"{name} = {value}" if name else value)
    width = max(map(len, groups), default=0)
    lines = ""
    for group, parts in groups.items():
        value = f"{{ {', '.join(parts)} }}" if group not in values else parts[0]
        # A group is given as a whole, so it needs again what it has in every run.
        if values is not CONSTANT and any(name.startswith(f"{group}.") for name in CONSTANT):
            value = f"merge(var.{group}, {value})"
        lines += f"{indent}{group.ljust(width)} = {value}\n"
    return lines


MODULE: Final = Path(__file__).parent
DEPLOYMENT: Final = MODULE / "deployment"
GUIDE: Final = MODULE.parents[1] / "docs/deploy.md"
BEGIN: Final = "<!-- inputs and outputs: begin -->"
END: Final = "<!-- inputs and outputs: end -->"
NOTICE: Final = (
    "# Written by python -m infra.terraform.generation; change the module's {} instead.\n\n"
)


@dataclass(frozen=True)
class Setting:
    """A setting of a group: "cpu", or "bucket.memory_mib" of an object in it, * in a map."""

    path: str
    type: str
    default: str | None  # None: required
    description: str


@dataclass(frozen=True)
class HclBlock:
    """A variable or an output of the module."""

    name: str
    body: str  # the text between its braces, formatted by `terraform fmt`

    def argument(self, name: str) -> str | None:
        found = re.search(
            rf"^  {name} += (.*?)(?=\n  [a-z]|\n\n|\n\Z)", self.body, re.MULTILINE | re.DOTALL
        )
        return re.sub(r"\n  ", "\n", found[1]).strip() if found else None

    @property
    def description(self) -> str:
        written = self.argument("description") or ""
        return written.strip('"').replace('\\"', '"').replace("$${", "${")

    def settings(self) -> list[Setting]:
        """Return the settings of a group, those of its objects behind them."""
        found: list[Setting] = []
        inside: list[str] = []
        for line in (self.argument("type") or "").splitlines()[1:-1]:
            said = re.fullmatch(r"\s*(\w+) += (.*?)(?: +# (.*))?", line)
            if said is None:  # the end of an object
                inside.pop()
                continue
            name, written, description = said.groups()
            path = "".join(f"{one}." for one in inside) + name
            kind, default = written, None
            if optional := re.fullmatch(r"optional\((\w+(?:\(\w+\))?)(?:, (.*))?\)", written):
                kind, default = optional[1], optional[2] or "null"
            elif begun := re.fullmatch(r"optional\((map\()?object\(\{", written):
                kind, default = ("map(object)", "{}") if begun[1] else ("object", "null")
                inside.append(f"{name}.*" if begun[1] else name)
            found.append(Setting(path, kind, default, description or ""))
        return found


def read_blocks(kind: str, text: str) -> list[HclBlock]:
    """Return the blocks of a kind ("variable", "output") in a formatted file, in their order."""
    found = re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}$', text, re.MULTILINE | re.DOTALL)
    return [HclBlock(name, body) for name, body in found]


def earlier_names(guide: str) -> dict[str, str]:
    """Return the names that settings had as variables of their own, and those that they have."""
    return dict(re.findall(r"`(\w+)` → `([\w.]+)`", guide))


def root_module(variables: list[HclBlock]) -> str:
    width = max(len(one.name) for one in variables)
    lines = "".join(f"  {one.name.ljust(width)} = var.{one.name}\n" for one in variables)
    head = NOTICE.format("variables.tf")
    return f'{head}module "voice_avatar" {{\n  source = "../"\n\n{lines}}}\n'


def root_variables(variables: list[HclBlock], earlier: Iterable[str]) -> str:
    """Return the declarations: of each group the names, whose types the module has."""
    groups = {one.name: [each.path for each in one.settings()] for one in variables}
    width = max(len(name) for name, paths in groups.items() if paths)
    known = "".join(
        f"    {name.ljust(width)} = [{_quoted(paths)}]\n" for name, paths in groups.items() if paths
    )
    names = f"locals {{\n  earlier = [{_quoted(earlier)}]\n  settings = {{\n{known}  }}\n}}\n"
    declared = "\n".join(_root_variable(one) for one in variables)
    return f"{NOTICE.format('variables.tf')}{names}\n{declared}"


def _root_variable(block: HclBlock) -> str:
    settings = block.settings()
    kind = "any" if settings else block.argument("type")
    text = f"  description = {block.argument('description')}\n  type        = {kind}\n"
    if settings or block.argument("default"):
        text += "  default     = null\n"
    if block.argument("sensitive"):
        text += "  sensitive   = true\n"
    if settings:
        unknown = f"setsubtract({_given(block.name, settings)}, local.settings.{block.name})"
        text += (
            f"\n  validation {{\n    condition     = length({unknown}) == 0\n"
            f'    error_message = "{block.name} has no ${{join(", ", {unknown})}}; it has '
            f'${{join(", ", local.settings.{block.name})}}."\n  }}\n'
        )
    if block.name == "project_id":
        text += EARLIER
    return f'variable "{block.name}" {{\n{text}}}\n'


USED: Final = (
    'setintersection(flatten([for name in fileset(path.module, "*.tfvars") : '
    'regexall("(?m)^([a-z_]+) *=", file("${path.module}/${name}"))]), local.earlier)'
)
EARLIER: Final = f"""
  # Terraform only warns about a variable that it does not know, and goes on with the defaults.
  validation {{
    condition = length(var.project_id) == 0 || length({USED}) == 0
    error_message = join(" ", [
      "Here are names of an earlier version: ${{join(", ", {USED})}}.",
      "docs/deploy.md, \\"Names of earlier versions\\", has those of today.",
      "Indent settings that are in a group (terraform fmt)."
    ])
  }}
"""


def _given(group: str, settings: Sequence[Setting]) -> str:
    """Return an expression for the paths of the settings that an operator has written."""
    given = [f"try(keys(var.{group}), [])"]
    for one in settings:
        value = f"var.{group}.{one.path}"
        if one.type == "object":
            given.append(f'[for name in try(keys({value}), []) : "{one.path}.${{name}}"]')
        elif one.type == "map(object)":
            given.append(
                f"flatten([for each in try(values({value}), []) : "
                f'[for name in try(keys(each), []) : "{one.path}.*.${{name}}"]])'
            )
    return f"concat({', '.join(given)})" if len(given) > 1 else given[0]


def root_outputs(outputs: list[HclBlock]) -> str:
    return NOTICE.format("outputs.tf") + "\n".join(
        f'output "{one.name}" {{\n  description = {one.argument("description")}\n'
        f"  value       = module.voice_avatar.{one.name}\n}}\n"
        for one in outputs
    )


def tables(variables: list[HclBlock], outputs: list[HclBlock]) -> str:
    inputs: list[str] = []
    for one in variables:
        settings = one.settings()
        kind = "" if settings else _code(one.argument("type"))
        default = _code(one.argument("default")) or "**required**"
        inputs.append(f"| **`{one.name}`** | {_cell(one.description)} | {kind} | {default} |")
        inputs += [
            f"| `{one.name}.{each.path}` | {_cell(each.description)} | {_code(each.type)} "
            f"| {_code(each.default) or '**required**'} |"
            for each in settings
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
        DEPLOYMENT / "module.tf": root_module(variables),
        DEPLOYMENT / "outputs.tf": root_outputs(outputs),
        DEPLOYMENT / "variables.tf": root_variables(variables, earlier_names(GUIDE.read_text())),
        DEPLOYMENT / "tests/pairs.tftest.hcl": pairs_test(),
        MODULE / "README.md": f"{before}{BEGIN}\n{tables(variables, outputs)}\n{END}{after}",
    }


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(expression: str | None) -> str:
    return "" if expression is None else f"`{expression}`".replace("|", "\\|")


def main() -> int:
    for path, text in generated().items():
        path.write_text(text)
        print(path.relative_to(MODULE))  # noqa: T201 - it is a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
