"""A test that switches every pair of the module's options on and off, in one state.

Terraform finds a cycle only when it orders what an apply makes, changes and deletes together. So a
single option that can be switched off alone proves nothing about two of them. The test applies one
set of options after another, chosen so that each two options are switched in every combination
(both on, both off, one on and the other off), and each is switched while the other stays on. The
first set is everything, the second nothing.

What runs a program on this machine while it is applied is left out: `convert_image = null` and
`domain_restricted_sharing`. So is `kms_key`, which must not change.
"""

from __future__ import annotations

import random
from itertools import combinations, pairwise
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
# Written by python -m infra.terraform.generated; infra/terraform/pairs.py says what it tries.

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
