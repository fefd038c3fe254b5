"""A storage server in a process of its own, to be killed: `python -m ... ROOT` prints its port."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from infra.local.storage.routes.app import create_app

if TYPE_CHECKING:
    from collections.abc import Mapping


async def never_publish(_topic: str, _data: bytes, _attributes: Mapping[str, str]) -> None:
    raise ConnectionError("the topic is out of reach")


def main() -> None:
    app = create_app(root=Path(sys.argv[1]), publish=never_publish, keys={})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="critical", lifespan="on", ws="none")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
