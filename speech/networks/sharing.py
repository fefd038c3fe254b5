"""Networks that several characters use: loaded once, kept as long as one of them is."""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar, cast
from weakref import WeakValueDictionary

_Shared = TypeVar("_Shared")


class Sharing:
    """Keeps what is loaded as long as somebody uses it; safe for threads."""

    def __init__(self) -> None:
        self._kept: WeakValueDictionary[str, object] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, key: str, load: Callable[[], _Shared]) -> _Shared:
        """Find the object of a key, or load and keep it.

        Args:
            key: names what is loaded and by what it is loaded, such as a role and a SHA-256.
            load: loads it; nothing else is loaded meanwhile, so that two callers load it once.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = load()
                self._kept[key] = kept
            return cast("_Shared", kept)

    def find(self, key: str) -> object | None:
        """Find the object of a key without loading it; None if there is none."""
        return self._kept.get(key)
