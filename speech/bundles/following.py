"""Tells which character bundles come into a folder while a service runs, change there and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.characters.manifest import BUILT_IN, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from pathlib import Path

_Traces = tuple[tuple[str, int, int], ...]
"""What shows that a bundle has changed: of each file its path, its time and its size."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What has happened in a folder of bundles since the look before.

    Attributes:
        new: bundles that have come or changed, by id, in order.
        gone: bundles that are there no longer.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]


class FollowedFolder:
    """A folder of bundles. Those that come with the service never change.

    Args:
        folder: of the bundles.
        known: the ids of those that are no news; None for all that lie in it now.
    """

    def __init__(self, folder: Path, known: Container[str] | None = None) -> None:
        self._folder = folder
        self._seen = self._look()
        self._told = {
            name: traces for name, traces in self._seen.items() if known is None or name in known
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The bundles that lay in it at the last look."""
        return tuple(self._seen)

    def look(self) -> Changes:
        """Look again; what is new is told when it is the same at two looks, and so is complete."""
        before, self._seen = self._seen, self._look()
        gone = tuple(sorted(self._told.keys() - self._seen.keys()))
        for name in gone:
            del self._told[name]
        new = tuple(
            name
            for name, traces in self._seen.items()
            if traces == before.get(name) and traces != self._told.get(name)
        )
        self._told |= {name: self._seen[name] for name in new}
        return Changes(new, gone)

    def _look(self) -> Mapping[str, _Traces]:
        found = sorted(path.parent for path in self._folder.glob(f"*/{MANIFEST}"))
        own = (path for path in found if path.name not in BUILT_IN and path.name[0] != ".")
        return {path.name: _traces(path) for path in own}


def _traces(folder: Path) -> _Traces:
    traces = []
    for path in sorted(folder.rglob("*")):
        try:
            facts = path.stat()
        except OSError:
            # It was removed just now; the next look tells.
            continue
        traces.append((str(path.relative_to(folder)), facts.st_mtime_ns, facts.st_size))
    return tuple(traces)
