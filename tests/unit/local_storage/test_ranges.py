from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.local.storage.errors import RangeNotSatisfiableError
from infra.local.storage.requests import requested_range

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


@pytest.mark.parametrize("header", ["bytes=0-", "bytes=-5", "bytes=0-0"])
def test_no_range_of_an_empty_content_can_be_satisfied(header: str) -> None:
    with pytest.raises(RangeNotSatisfiableError) as caught:
        requested_range(header, 0)
    assert caught.value.headers == {"Content-Range": "bytes */0"}


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=a-b", "bytes=1-2,3-4", "items=0-1"])
def test_anything_but_a_single_range_means_the_whole_object(header: str | None) -> None:
    assert requested_range(header, 10) is None
