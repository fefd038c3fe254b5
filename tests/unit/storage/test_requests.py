from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.local.storage.errors import StorageError
from infra.local.storage.requests import number_in, requested_range


@pytest.mark.parametrize("text", ["-1", "1.0", " 1", "٣", "", str(2**63), "9" * 5000])
def test_a_condition_that_is_not_a_number_is_named(text: str) -> None:
    with pytest.raises(StorageError, match="InvalidArgument: ifGenerationMatch"):
        number_in(text, "ifGenerationMatch")


@settings(deadline=None)
@given(size=st.integers(1, 50), first=st.integers(0, 60), last=st.integers(0, 60))
def test_a_range_is_the_slice_between_its_ends(size: int, first: int, last: int) -> None:
    header = f"bytes={first}-{last}"

    if last < first:
        assert requested_range(header, size) is None
    elif first >= size:
        with pytest.raises(StorageError, match=r"^InvalidRange: "):
            requested_range(header, size)
    else:
        assert requested_range(header, size) == range(size)[first : last + 1]
    if last:
        assert requested_range(f"bytes=-{last}", size) == range(size)[-last:]


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=a-b", "bytes=1-2,3-4", "items=0-1"])
def test_anything_but_a_single_range_means_the_whole_object(header: str | None) -> None:
    assert requested_range(header, 10) is None
