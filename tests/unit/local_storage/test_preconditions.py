from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.local.storage.errors import (
    InvalidArgumentError,
    NotModifiedError,
    PreconditionFailedError,
)
from infra.local.storage.requests import Preconditions, number_in

NUMBERS = st.integers(0, 3)


@settings(deadline=None)
@given(wanted=NUMBERS, generation=NUMBERS)
def test_a_generation_must_match_exactly_and_zero_means_none(wanted: int, generation: int) -> None:
    conditions = Preconditions(generation_match=wanted)

    if wanted == generation:
        conditions.check(generation, 1)
    else:
        with pytest.raises(PreconditionFailedError):
            conditions.check(generation, 1)


@settings(deadline=None)
@given(unwanted=NUMBERS, generation=NUMBERS)
def test_a_not_match_fails_a_write_and_answers_a_read_not_modified(
    unwanted: int, generation: int
) -> None:
    conditions = Preconditions(generation_not_match=unwanted)

    if unwanted != generation:
        conditions.check(generation, 1)
        return
    with pytest.raises(PreconditionFailedError):
        conditions.check(generation, 1)
    with pytest.raises(NotModifiedError):
        conditions.check(generation, 1, reading=True)


def test_metagenerations_are_conditions_too() -> None:
    Preconditions(metageneration_match=2, metageneration_not_match=1).check(5, 2)
    with pytest.raises(PreconditionFailedError):
        Preconditions(metageneration_match=2).check(5, 1)
    with pytest.raises(PreconditionFailedError):
        Preconditions(metageneration_not_match=2).check(5, 2)


@pytest.mark.parametrize("text", ["-1", "1.0", "1e3", "x", " 1", "٣", "", str(2**63), "9" * 5000])
def test_a_condition_that_is_not_a_number_is_named(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="ifGenerationMatch"):
        number_in(text, "ifGenerationMatch")
