"""The local cloud without emulators, whose waiting requests end after a moment.

`python -m tests.integration.openapi.cloud FOLDER` writes the api's address in a line and serves
until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from infra.local.cloud.start import local_cloud
from infra.local.configuration.options import CloudOptions


async def serve(folder: Path) -> None:
    """Serve until standard input ends."""
    # Nothing that these tests wait for ever comes: most of their voices have no recording.
    async with local_cloud(CloudOptions(folder=folder, wait_seconds=0.05), embedded=True) as cloud:
        sys.stdout.write(f"{cloud.addresses.api}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
