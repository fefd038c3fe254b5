"""A running local cloud, and the file that tells other programs where it is."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infra.local.configuration import names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from infra.local.configuration.addresses import Addresses
    from shared.ports.store import VoiceStore


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """A running local cloud.

    Attributes:
        addresses: where its services listen.
        has_page: whether the api also serves the page.
        voices: its voices, to watch them from this process.
        crashed: waits until a service has ended by itself, and returns the service's name.
        pids: the process ids of the services that have a process of their own, by name.
    """

    addresses: Addresses
    has_page: bool
    voices: VoiceStore
    crashed: Callable[[], Awaitable[str]]
    pids: Mapping[str, int] = field(default_factory=dict)

    def endpoints(self) -> dict[str, Any]:
        """Return the content of `endpoints.json`."""
        return {
            "api": self.addresses.api,
            "page": f"{self.addresses.api}/" if self.has_page else None,
            "firestore": self.addresses.firestore,
            "pubsub": self.addresses.pubsub,
            "storage": self.addresses.storage,
            "live": self.addresses.live_socket,
            "voicevox": self.addresses.live,
            "wyoming": self.addresses.wyoming,
            "project_id": names.PROJECT_ID,
            "pid": os.getpid(),
        }


@contextmanager
def published_endpoints(cloud: LocalCloud, folder: Path) -> Iterator[Path]:
    """Write `endpoints.json` into a folder and remove it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "endpoints.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(cloud.endpoints(), indent=2) + "\n")
    draft.replace(path)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
