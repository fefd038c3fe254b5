"""What is written from the module's variables and outputs, and options that are tried in pairs."""

from __future__ import annotations

from itertools import combinations

import pytest

from infra.terraform.generation import (
    NEEDS,
    OPTIONS,
    choose_states,
    generated,
    tried,
)
from tests.unit.terraform.reading import MODULE


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_generated_file_is_what_the_variables_and_outputs_say_now(path: object) -> None:
    written = {str(one): text for one, text in generated().items()}

    assert (MODULE / str(path)).read_text() == written[str(path)], (
        "run python -m infra.terraform.generation"
    )


def test_every_two_options_are_switched_on_and_off_together_and_beside_each_other() -> None:
    done = tried(choose_states())
    independent = {name: {needed} for name, needed in NEEDS.items()}

    for first, second in combinations(OPTIONS, 2):
        wanted = [("on", "on"), ("on", "off"), ("off", "on"), ("off", "off")]
        wanted += [("on", "stays on"), ("off", "stays on"), ("stays on", "on"), ("stays on", "off")]
        missing = [(one, other) for one, other in wanted if (first, one, second, other) not in done]
        if second in independent.get(first, set()) or first in independent.get(second, set()):
            # What an option needs cannot be switched off while it stays, or on while it goes.
            assert ("off", "off") not in missing
            assert ("on", "on") not in missing
        else:
            assert not missing, (first, second, missing)
