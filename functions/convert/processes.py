"""Several processes of the converter behind one port, watched over by Gunicorn.

Gunicorn starts them, replaces one that ends or is silent for too long, and passes SIGTERM on; what
each does is the same as when there is one (`main.serve`), so HTTP/2 stays. The engines are made
after the fork: sessions of ONNX Runtime and channels of gRPC do not survive one.

A process beats once when it begins and, from when it serves, out of its event loop: one that does
not get ready, whose loop stands still or that is stopped falls silent. Gunicorn ends it after the
timeout with SIGABRT, and a second later with SIGKILL.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
from typing import TYPE_CHECKING, Any, Final, cast

from gunicorn.app.base import BaseApplication
from gunicorn.errors import AppImportError
from gunicorn.workers.base import Worker

from speech.bundles.bundle import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from gunicorn.config import Config

    from functions.convert.settings import ConvertSettings

_BEATS_PER_TIMEOUT: Final = 4


class Membership:
    """What a process knows of those beside it.

    Args:
        sockets: the descriptors of the sockets to listen at, which all of them share.
        beat: tells that the process lives.
        is_orphaned: whether nobody watches over it any more.
        beat_seconds: how often to beat.
    """

    def __init__(
        self,
        sockets: Sequence[int],
        beat: Callable[[], None],
        is_orphaned: Callable[[], bool],
        beat_seconds: float,
    ) -> None:
        self.sockets = tuple(sockets)
        self._beat = beat
        self._is_orphaned = is_orphaned
        self._beat_seconds = beat_seconds

    async def live(self, is_stuck: Callable[[], bool]) -> None:
        """Beat until this process is stuck, which ends it, or orphaned.

        Args:
            is_stuck: whether the process cannot go on; it is then replaced.
        """
        while not is_stuck() and not self._is_orphaned():
            self._beat()
            await asyncio.sleep(self._beat_seconds)
        if not self._is_orphaned():
            # From here on it is silent, and ended after the timeout.
            await asyncio.Event().wait()


def run(
    config: ConvertSettings,
    serve: Callable[[ConvertSettings, Membership], Coroutine[Any, Any, None]],
) -> None:
    """Run `config.processes` of them, each of which serves, until SIGTERM or SIGINT."""
    _Application(config, serve).run()  # type: ignore[no-untyped-call] # Gunicorn is not typed


class _Application(BaseApplication):
    """Gunicorn's view of the converter: its settings, and what a process does."""

    def __init__(
        self,
        config: ConvertSettings,
        serve: Callable[[ConvertSettings, Membership], Coroutine[Any, Any, None]],
    ) -> None:
        self._config = config
        self._serve = serve
        super().__init__()  # type: ignore[no-untyped-call] # Gunicorn is not typed

    def load_config(self) -> None:
        """Set what Gunicorn itself does; the processes read the rest from our settings."""
        chosen: dict[str, Any] = {
            "bind": f"{self._config.host}:{self._config.port}",
            "workers": self._config.processes,
            "worker_class": _ConvertWorker,
            "timeout": self._config.timeout,
            "graceful_timeout": self._config.graceful_timeout,
            "loglevel": self._config.log_level.lower(),
            "logger_class": "functions.convert.processes.Log",
            # Heartbeats are files: not on a disk, and writable in a read-only image.
            "worker_tmp_dir": "/dev/shm" if os.path.isdir("/dev/shm") else None,  # noqa: PTH112, S108
            "control_socket_disable": True,
        }
        settings = cast("Config", self.cfg)
        for name, value in chosen.items():
            settings.set(name, value)  # type: ignore[no-untyped-call] # likewise

    def load(self) -> Callable[[Membership], Coroutine[Any, Any, None]]:
        """Return what a process does."""
        return lambda membership: self._serve(self._config, membership)


class _ConvertWorker(Worker):
    """One process."""

    def init_signals(self) -> None:
        """Leave them alone, but for SIGABRT: what serves handles them."""
        # The last words of a process that hung are where each of its threads stood.
        faulthandler.enable()

    def run(self) -> None:
        """Serve until told to stop, or until it is time for a successor."""
        # Gunicorn reads no silence from a process that has never beaten.
        self.notify()  # type: ignore[no-untyped-call] # Gunicorn is not typed
        membership = Membership(
            # Copies: the server closes what it is given, and so does Gunicorn.
            [os.dup(one.fileno()) for one in self.sockets],
            self.notify,
            lambda: os.getppid() != self.ppid,
            self.timeout / _BEATS_PER_TIMEOUT,
        )
        try:
            asyncio.run(self.wsgi(membership))
        except BundleError as error:
            # What Gunicorn ends for; after anything else it starts one process after the other.
            raise AppImportError(str(error)) from error


class Log:
    """Sends Gunicorn's log to ours, which is configured already.

    Args:
        cfg: Gunicorn's settings.
    """

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self._log = logging.getLogger("gunicorn")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def setup(self, _cfg: Any) -> None:
        """Change nothing."""

    def access(self, *_request: object) -> None:
        """Log no request: the platform does."""

    def reopen_files(self) -> None:
        """Hold no file open."""

    def close_on_exec(self) -> None:
        """Likewise."""
