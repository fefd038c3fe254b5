"""The local storage server as a process of its own, with both buckets."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
from google.cloud.storage import Client
from google.oauth2.service_account import Credentials

from infra.local.cloud import provisioning
from infra.local.configuration import names
from infra.local.configuration.environments import STORAGE_VARIABLE
from infra.local.configuration.keys import make_key
from infra.local.configuration.options import ROOT
from infra.local.processes.processes import Supervisor
from shared.google.cloud_storage import CloudStorageBucket, Signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOWHERE: Final = "127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Storage:
    """A running storage server.

    Attributes:
        url: its address, also in this process's environment.
        pid: its process.
        key_file: what signs addresses.
    """

    url: str
    pid: int
    key_file: Path

    def bucket(self, name: str) -> CloudStorageBucket:
        """Open a bucket."""
        signer = Signer(Credentials.from_service_account_file(str(self.key_file)))
        return CloudStorageBucket(Client(project=names.PROJECT_ID), name, signer)


@asynccontextmanager
async def storage_server() -> AsyncIterator[Storage]:
    """Start it, make the buckets, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="voice-avatar-") as name:
        folder = Path(name)
        key_file, supervisor = folder / "key.json", Supervisor(folder / "logs")
        (port,) = supervisor.ports.free(1)
        make_key().write(key_file)
        url = f"http://127.0.0.1:{port}"
        module = (sys.executable, "-m", "infra.local.cloud.storage_service")
        command = (*module, str(port), str(folder / "storage"), str(key_file), NOWHERE)
        try:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = await supervisor.start("storage", command, environment)
            listing = f"{url}/storage/v1/b?project={names.PROJECT_ID}"
            await supervisor.wait_until_ready(process, listing)
            async with httpx.AsyncClient() as client:
                await provisioning.make_buckets(client, url, [])
            # The client library knows its emulator from nowhere else.
            os.environ[STORAGE_VARIABLE] = url
            yield Storage(url, process.pid, key_file)
        finally:
            await supervisor.stop_all()
