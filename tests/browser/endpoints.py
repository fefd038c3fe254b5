"""The addresses of a running local cloud's services."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The content of `endpoints.json`.

    Attributes:
        firestore: `HOST:PORT` of the Firestore emulator.
        page_firestore: where pages may ask it.
    """

    api: str
    page: str
    storage: str
    firestore: str
    page_firestore: str
    project_id: str
    folder: Path

    @classmethod
    def read(cls, path: Path, *, needs_firestore: bool = True) -> Endpoints:
        told: dict[str, Any] = json.loads(path.read_text())
        if told["page"] is None:
            raise RuntimeError("the page is not built: run `npm ci && npm run build` in web")
        if needs_firestore and told["firestore"] is None:
            raise RuntimeError("the browser tests need the Firestore emulator (see README.md)")
        return cls(
            told["api"],
            told["page"],
            told["storage"],
            told["firestore"] or "",
            told["page_firestore"] or "",
            told["project_id"],
            path.parent,
        )

    def site(self) -> dict[str, object]:
        return {
            "api": self.api,
            "firebase": {"projectId": self.project_id, "apiKey": "local"},
            "firestoreEmulator": self.page_firestore,
        }


@contextmanager
def running_cloud(folder: Path) -> Iterator[Endpoints]:
    """Start a local cloud with Google's emulators, and stop it at the end."""
    command = [sys.executable, "-m", "infra.local", "serve", "--emulators", "--folder", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            yield _wait(process, folder / "endpoints.json")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=STOP_SECONDS)


def _wait(process: subprocess.Popen[str], path: Path) -> Endpoints:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if path.is_file():
            return Endpoints.read(path)
    raise RuntimeError(f"the local cloud did not come up:\n{''.join(said)}")
