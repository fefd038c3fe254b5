"""Writes what follows from the module's own variables and outputs.

- `deployment/`: a root module that passes every variable on and gives every output. Its
  `variables.tf` is a link to the module's.
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
    from collections.abc import Iterable, Sequence


OPTIONS: Final = {
    "alert_emails": '["operator@example.com"]',
    "app_check": '{ app_id = "1:123456789012:web:0123456789abcdef",'
    ' site_key = "6LcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }',
    "busy_hours": "{ noon = { from = 11, to = 13, min_instances = 2 } }",
    "characters": "{}",
    "compat": '{ keys = ["bot"] }',
    "content_credentials": '{ certificates = "-----BEGIN CERTIFICATE-----",'
    ' kms_key_version = "projects/demo-project/locations/europe-west1/keyRings/r/cryptoKeys/k'
    '/cryptoKeyVersions/1" }',
    "convert_gpu": '"nvidia-l4"',
    "custom_domain": '"voice.example.com"',
    "firebase_authentication": "{}",
    "live": '{ cpu = "4", memory = "16Gi" }',
    "monthly_budget": "50",
    "own_characters": '{ image = "europe-west1-docker.pkg.dev/demo-project/voice-avatar/train'
    f'@sha256:{"1" * 64}" }}',
    "page": '{ folder = "../tests/page" }',
    "signing": '"hmac"',
    "traces": "{ ratio = 0.1 }",
    "watermark": "{ key_rotation = 1 }",
}
"""Each option that makes resources, and the value that switches it on.

`NEEDS` says which of them needs another one, and brings it with it.
"""

NEEDS: Final = {"compat": "live", "own_characters": "characters", "page": "custom_domain"}

CONSTANT: Final = {
    "allowed_origins": '["https://www.example.com"]',
    "convert_cpu": '"4"',
    "convert_image": '"europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert@sha256:'
    + "0" * 64
    + '"',
    "convert_memory": '"16Gi"',
    "max_instances": "{ convert = 3 }",
    "min_instances": "0",
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


def choose_states(seed: int = 16) -> list[State]:
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
    """Return the test's file."""
    constant = "".join(f"  {name} = {value}\n" for name, value in _aligned(CONSTANT))
    runs = "".join(_run(index, state) for index, state in enumerate(choose_states()[1:], start=1))
    return f"{HEAD}\nvariables {{\n{constant}}}\n{runs}"


def _run(index: int, state: State) -> str:
    values = {name: OPTIONS[name] for name in OPTIONS if name in state}
    lines = "".join(f"    {name} = {value}\n" for name, value in _aligned(values))
    variables = f"\n  variables {{\n{lines}  }}\n" if lines else ""
    return f'\nrun "state_{index:02}" {{{variables or " "}}}\n'.replace("{ }", "{}")


def _aligned(values: dict[str, str]) -> list[tuple[str, str]]:
    width = max(map(len, values), default=0)
    return [(name.ljust(width), value) for name, value in values.items()]


MODULE: Final = Path(__file__).parent
DEPLOYMENT: Final = MODULE / "deployment"
BEGIN: Final = "<!-- inputs and outputs: begin -->"
END: Final = "<!-- inputs and outputs: end -->"
NOTICE: Final = (
    "# Written by python -m infra.terraform.generation; change the module's {} instead.\n\n"
)


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
        """The description without its quotes."""
        written = self.argument("description") or ""
        return written.strip('"').replace('\\"', '"').replace("$${", "${")


def read_blocks(kind: str, text: str) -> list[HclBlock]:
    """Return the blocks of a kind ("variable", "output") in a formatted file, in their order."""
    found = re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}$', text, re.MULTILINE | re.DOTALL)
    return [HclBlock(name, body) for name, body in found]


def root_module(variables: list[HclBlock]) -> str:
    """Return the module's call with every variable passed on."""
    width = max(len(one.name) for one in variables)
    lines = "".join(f"  {one.name.ljust(width)} = var.{one.name}\n" for one in variables)
    head = NOTICE.format("variables.tf")
    return f'{head}module "voice_avatar" {{\n  source = "../"\n\n{lines}}}\n'


def root_outputs(outputs: list[HclBlock]) -> str:
    """Return the declarations that hand the module's outputs out."""
    return NOTICE.format("outputs.tf") + "\n".join(
        f'output "{one.name}" {{\n  description = {one.argument("description")}\n'
        f"  value       = module.voice_avatar.{one.name}\n}}\n"
        for one in outputs
    )


def tables(variables: list[HclBlock], outputs: list[HclBlock]) -> str:
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
    for path, text in generated().items():
        path.write_text(text)
        print(path.relative_to(MODULE))  # noqa: T201 - it is a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
