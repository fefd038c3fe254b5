"""The names in the local cloud; they are the same as Terraform's defaults."""

from __future__ import annotations

import secrets
import socket
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Self


PROJECT_ID: Final = "demo-voice-avatar"
"""Firebase's tools treat a project whose name begins with demo- as one that exists only locally."""

UPLOADS_BUCKET: Final = "voice-avatar-uploads"
RESULTS_BUCKET: Final = "voice-avatar-results"
CHARACTERS_BUCKET: Final = "voice-avatar-characters"
OWN_RECORDINGS_BUCKET: Final = "voice-avatar-own-recordings"

UPLOADS_TOPIC: Final = "uploads"
CONVERSIONS_TOPIC: Final = "conversions"
DEAD_SUFFIX: Final = "-dead"

LIVE_TICKET_KEY: Final = "the tickets of every local cloud are signed with this"

SIGNER: Final = f"signer@{PROJECT_ID}.iam.gserviceaccount.com"


def topic_path(topic: str) -> str:
    return f"projects/{PROJECT_ID}/topics/{topic}"


def subscription_path(subscription: str) -> str:
    return f"projects/{PROJECT_ID}/subscriptions/{subscription}"


def hidden_host() -> str:
    """Return an address of this machine that no web page can find by trying.

    Every address 127.x.y.z leads to this machine, except on macOS, which has 127.0.0.1 alone.
    """
    if sys.platform == "darwin":
        return "127.0.0.1"
    return ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])


class Ports:
    """Free ports that are kept for servers until `close`, also while a server is started again.

    The system gives a free port to whoever asks for any, and to every connection that goes out. A
    port that is only looked up may therefore be taken before its server opens it. On Linux a port
    is kept by a socket that is bound to it and does not listen: the system gives it to nobody, and
    a server that allows the address to be used again (SO_REUSEADDR), as servers do, can still
    open it. Elsewhere such a socket would be in the server's way, so the port is only looked up.
    """

    def __init__(self) -> None:
        self._keepers: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def free(self, count: int) -> list[int]:
        keepers = [socket.socket() for _ in range(count)]
        self._keepers += keepers
        for keeper in keepers:
            keeper.bind(("127.0.0.1", 0))
            # Not before: a socket that allows it could be given a port that another one keeps.
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ports = [keeper.getsockname()[1] for keeper in keepers]
        self._keepers += [lock for port in ports if (lock := _lock(port)) is not None]
        if sys.platform != "linux":
            self.close()
        return ports

    def keep(self, port: int) -> bool:
        """Keep a certain port; return False if another program has it."""
        lock = _lock(port)
        if lock is None:
            return False
        keeper = socket.socket()
        self._keepers.append(lock)
        try:
            _bind(keeper, port)
        except OSError:
            self._keepers.pop().close()
            keeper.close()
            return False
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._keepers.append(keeper)
        if sys.platform != "linux":
            self.close()
        return True

    def close(self) -> None:
        while self._keepers:
            self._keepers.pop().close()


def _lock(port: int) -> socket.socket | None:
    """Lock a port among local clouds; None if another one has it."""
    if sys.platform != "linux":
        return socket.socket()
    # A name without a file, which ends with its process.
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0voice-avatar-port-{port}")
    except OSError:
        lock.close()
        return None
    return lock


def _bind(keeper: socket.socket, port: int) -> None:
    """Bind to a port, also if connections of an earlier server still close there."""
    try:
        keeper.bind(("127.0.0.1", port))
    except OSError:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                raise
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", port))
