from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.local.storage.errors import (
    InvalidArgumentError,
    NotModifiedError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
)
from infra.local.storage.requests import Preconditions, number_in, requested_range

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


@pytest.mark.parametrize("text", ["-1", "1.0", "1e3", "x", " 1", "٣", "", str(2**63), "9" * 5000])
def test_a_condition_that_is_not_a_number_is_named(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="ifGenerationMatch"):
        number_in(text, "ifGenerationMatch")


SIZES = st.integers(1, 50)


@settings(deadline=None)
@given(size=SIZES, first=st.integers(0, 60), last=st.integers(0, 60))
def test_a_range_is_the_slice_between_its_ends(size: int, first: int, last: int) -> None:
    header = f"bytes={first}-{last}"
    whole = range(size)

    if last < first:
        assert requested_range(header, size) is None
    elif first >= size:
        with pytest.raises(RangeNotSatisfiableError):
            requested_range(header, size)
    else:
        assert requested_range(header, size) == whole[first : last + 1]


@settings(deadline=None)
@given(size=SIZES, count=st.integers(1, 60))
def test_a_suffix_is_the_end(size: int, count: int) -> None:
    assert requested_range(f"bytes=-{count}", size) == range(size)[-count:]


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=a-b", "bytes=1-2,3-4", "items=0-1"])
def test_anything_but_a_single_range_means_the_whole_object(header: str | None) -> None:
    assert requested_range(header, 10) is None
