"""Runs the storage server in a process of its own, beside Google's emulators.

`python -m infra.local.cloud.storage_service PORT ROOT KEY_FILE PUBSUB_HOST`
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import httpx
import uvicorn

from infra.local.cloud import provisioning
from infra.local.configuration.keys import read_key
from infra.local.storage.app import create_app


def main(port: str, root: str, key_file: str, pubsub: str) -> None:
    """Serve Cloud Storage at a port of 127.0.0.1 until SIGTERM."""
    key = read_key(Path(key_file))
    app = create_app(
        root=Path(root),
        publish=partial(provisioning.publish, httpx.AsyncClient(), f"http://{pubsub}"),
        keys={key.email: key.private_key.public_key()},
    )
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", ws="none")


if __name__ == "__main__":
    main(*sys.argv[1:])
