from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from infra.local.storage.protocol.resources import StoredObject, moment_of
from infra.local.storage.state.lifecycle import is_expired

CREATED = 1_900_000_000_000_000
DELETE = {"type": "Delete"}


def stored(name: str = "v/a.webm") -> StoredObject:
    return StoredObject("b", name, 1, 1, "c", 0, "", None, None, CREATED, CREATED, {})


@pytest.mark.parametrize(
    "condition",
    [
        {"age": 1},
        {"age": 0},
        {"age": 1, "matchesPrefix": ["x/", "v/"]},
        {"age": 1, "matchesSuffix": [".webm"]},
    ],
)
def test_an_object_expires_when_it_is_old_enough(condition: dict[str, Any]) -> None:
    lifecycle = {"rule": [{"action": DELETE, "condition": condition}]}
    due = moment_of(CREATED) + timedelta(days=condition["age"])

    assert is_expired(lifecycle, stored(), due)
    assert not is_expired(lifecycle, stored(), due - timedelta(microseconds=1))


@pytest.mark.parametrize(
    "lifecycle",
    [
        {},
        {"rule": None},
        {"rule": ["Delete"]},
        {"rule": [{"action": DELETE, "condition": {}}]},
        {"rule": [{"action": DELETE, "condition": {"age": "1"}}]},
        {"rule": [{"action": DELETE, "condition": {"age": 1, "isLive": False}}]},
        {"rule": [{"action": DELETE, "condition": {"age": 1, "matchesPrefix": ["x/"]}}]},
        {"rule": [{"action": DELETE, "condition": {"age": 1, "matchesSuffix": [".wav"]}}]},
        {"rule": [{"action": DELETE, "condition": {"age": 1, "matchesPrefix": "v/"}}]},
        {"rule": [{"action": {"type": "SetStorageClass"}, "condition": {"age": 1}}]},
    ],
)
def test_objects_without_a_matching_rule_never_expire(lifecycle: dict[str, Any]) -> None:
    assert not is_expired(lifecycle, stored(), moment_of(CREATED) + timedelta(days=1000))
