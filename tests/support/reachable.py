"""Counts what an object keeps alive, so that tests need not know where it keeps it."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, FunctionType, ModuleType

_CODE = type | ModuleType | FunctionType | BuiltinFunctionType


def objects_kept_by(owner: object) -> int:
    """Return how many objects are reached from one, itself included; code is not counted."""
    kept, unread = {id(owner): owner}, [owner]
    while unread:
        each = unread.pop()
        # The garbage collector passes over a dictionary's keys if all are strings.
        keys = list(each) if isinstance(each, dict) else []
        for other in (*gc.get_referents(each), *keys):
            if not isinstance(other, _CODE) and id(other) not in kept:
                kept[id(other)] = other
                unread.append(other)
    return len(kept)
