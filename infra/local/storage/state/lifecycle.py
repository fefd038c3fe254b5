"""Lifecycle rules, as far as the server obeys them: deletion by age, of a prefix or suffix.

Reference: https://cloud.google.com/storage/docs/lifecycle. A rule with any other action or
condition is kept but not obeyed, so that never more is deleted than was asked for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from infra.local.storage.protocol.resources import moment_of

if TYPE_CHECKING:
    from infra.local.storage.protocol.resources import Json, StoredObject


def is_expired(lifecycle: Json, stored: StoredObject, now: datetime) -> bool:
    """Whether one of a bucket's rules says that an object is to be deleted by now."""
    rules = lifecycle.get("rule")
    if not isinstance(rules, list):
        return False
    return any(_asks_for_deletion(rule, stored, now) for rule in rules)


def _asks_for_deletion(rule: Any, stored: StoredObject, now: datetime) -> bool:
    match rule:
        case {"action": {"type": "Delete"}, "condition": {"age": int(age), **others}}:
            return (
                now - moment_of(stored.created) >= timedelta(days=age)
                and others.keys() <= {"matchesPrefix", "matchesSuffix"}
                and stored.name.startswith(_texts(others.get("matchesPrefix", [""])))
                and stored.name.endswith(_texts(others.get("matchesSuffix", [""])))
            )
    return False


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
