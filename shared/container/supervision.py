"""Several processes of the converter behind one port, supervised by Gunicorn.

Gunicorn starts the processes, replaces one that ends or sends no heartbeat, and passes SIGTERM on.
The engines are made after the fork, because ONNX Runtime's sessions and gRPC's channels do not
survive one.

A process sends heartbeats from its event loop once it serves. One whose event loop is blocked, or
that is stopped, sends none. After the timeout Gunicorn ends it with SIGABRT, a second later with
SIGKILL. A process that still loads has a limit of its own, because a slow machine needs minutes for
what a fast one does in a second.

A worn process writes its condition to memory that it shares with Gunicorn's process, and is told to
retire when its successor serves.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import mmap
import os
import signal
import sys
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import AppImportError
from gunicorn.workers.base import Worker

from shared.characters.bundle_files import BundleError
from shared.runtime.process import on_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from gunicorn.config import Config

    from shared.container.process_plan import ServingSettings

_HEARTBEATS_PER_TIMEOUT: Final = 4

# The signal at which a process takes nothing new and ends what it has; Windows lacks it.
RETIRE: Final[int] = getattr(signal, "SIGUSR2", 0)


class Condition(IntEnum):
    STARTING = 0
    SERVING = 1
    WORN = 2


_Config = TypeVar("_Config", bound="ServingSettings")


class Supervision:
    def __init__(
        self,
        sockets: Sequence[int],
        notify: Callable[[], None],
        is_orphaned: Callable[[], bool],
        heartbeat_seconds: float,
        report_condition: Callable[[Condition], None],
    ) -> None:
        self.sockets = tuple(sockets)
        self._notify = notify
        self._is_orphaned = is_orphaned
        self._heartbeat_seconds = heartbeat_seconds
        self._report_condition = report_condition

    def on_retire(self, retire: Callable[[], None]) -> None:
        on_signal(RETIRE, retire)

    async def send_heartbeats(
        self, is_stuck: Callable[[], bool], is_worn: Callable[[], bool]
    ) -> None:
        """Send heartbeats until this process is orphaned; never return if it is stuck."""
        while not is_stuck() and not self._is_orphaned():
            self._notify()
            self._report_condition(Condition.WORN if is_worn() else Condition.SERVING)
            await asyncio.sleep(self._heartbeat_seconds)
        if not self._is_orphaned():
            await asyncio.Event().wait()


def run(
    config: _Config,
    serve: Callable[[_Config, Supervision], Coroutine[Any, Any, None]],
) -> None:
    """Run `config.processes` processes, each of which serves, until SIGTERM or SIGINT."""
    application = _Application(config, serve)
    _Supervisor(application).run()  # type: ignore[no-untyped-call] # Gunicorn is not typed


class _Application(BaseApplication):
    def __init__(
        self,
        config: ServingSettings,
        serve: Callable[[Any, Supervision], Coroutine[Any, Any, None]],
    ) -> None:
        self.config = config
        self._serve = serve
        super().__init__()  # type: ignore[no-untyped-call] # Gunicorn is not typed

    def load_config(self) -> None:
        chosen: dict[str, Any] = {
            "bind": f"{self.config.host}:{self.config.port}",
            "workers": self.config.processes,
            "worker_class": ConvertWorker,
            "timeout": self.config.timeout,
            "graceful_timeout": self.config.graceful_timeout,
            "logger_class": "shared.container.supervision.GunicornLog",
            # Heartbeats are files. They should be on no disk, and the image may be read-only.
            "worker_tmp_dir": "/dev/shm" if os.path.isdir("/dev/shm") else None,  # noqa: PTH112, S108
            "control_socket_disable": True,
            "worker_exit": _end_at_once,
        }
        settings = cast("Config", self.cfg)
        for name, value in chosen.items():
            settings.set(name, value)  # type: ignore[no-untyped-call] # likewise

    def load(self) -> Callable[[Supervision], Coroutine[Any, Any, None]]:
        return lambda supervision: self._serve(self.config, supervision)


class ConvertWorker(Worker):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)  # type: ignore[no-untyped-call] # Gunicorn is not typed
        # Made before the fork: both processes have it.
        self._condition = mmap.mmap(-1, 1)
        self.made_at = time.monotonic()
        # Gunicorn never times out a worker without a heartbeat, and it may hang at once.
        self.notify()  # type: ignore[no-untyped-call] # likewise

    @property
    def condition(self) -> Condition:
        return Condition(self._condition[0])

    def init_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, lambda *_: os._exit(0))
        # SIGABRT then prints where each thread of a hanging process is.
        faulthandler.enable()

    def run(self) -> None:
        """Serve until SIGTERM, or until the process is worn and has ended its work."""
        supervision = Supervision(
            # Duplicates, because both the server and Gunicorn close their sockets.
            [os.dup(one.fileno()) for one in self.sockets],
            self.notify,
            lambda: os.getppid() != self.ppid,
            self.timeout / _HEARTBEATS_PER_TIMEOUT,
            lambda condition: self._condition.__setitem__(0, condition),
        )
        try:
            asyncio.run(self.wsgi(supervision))
        except BundleError as error:
            # Gunicorn ends after this error; after any other it would start processes endlessly.
            raise AppImportError(str(error)) from error


class _Supervisor(Arbiter):
    """Gunicorn's supervisor, which starts the successor of a worn process first."""

    def __init__(self, application: _Application) -> None:
        super().__init__(application)  # type: ignore[no-untyped-call] # Gunicorn is not typed
        self._load_timeout = application.config.load_timeout
        self._worn: ConvertWorker | None = None
        self._is_retiring = False

    def manage_workers(self) -> None:
        self._replace_worn()
        super().manage_workers()  # type: ignore[no-untyped-call] # likewise

    def murder_workers(self) -> None:
        workers: list[ConvertWorker] = list(self.WORKERS.values())
        for worker in workers:
            if worker.condition is not Condition.STARTING or worker.aborted:
                continue
            if time.monotonic() - worker.made_at < self._load_timeout:
                worker.notify()  # type: ignore[no-untyped-call] # likewise
            else:
                logging.getLogger("gunicorn").critical(
                    "process %d was not ready within LOAD_TIMEOUT=%d s; it is started again."
                    " Set LOAD_TIMEOUT higher on a slow machine.",
                    worker.pid,
                    self._load_timeout,
                )
                worker.aborted = True
                self.kill_worker(worker.pid, signal.SIGABRT)  # type: ignore[no-untyped-call] # likewise
        super().murder_workers()  # type: ignore[no-untyped-call] # likewise

    def _replace_worn(self) -> None:
        workers: list[ConvertWorker] = list(self.WORKERS.values())
        if self._worn is not None and self._worn not in workers:
            self._worn = None
            self.num_workers -= 1
        others = [each for each in workers if each is not self._worn]
        starting = any(each.condition is Condition.STARTING for each in others)
        if starting or len(workers) < self.num_workers:
            return
        if self._worn is not None:
            if not self._is_retiring:
                self._is_retiring = True
                self.kill_worker(self._worn.pid, RETIRE)  # type: ignore[no-untyped-call] # likewise
            return
        worn = [each for each in workers if each.condition is Condition.WORN]
        if worn:
            self._worn, self._is_retiring = worn[0], False
            self.num_workers += 1


def _end_at_once(_arbiter: object, worker: Any) -> None:
    """End a process whose work is done, called in it: freeing its networks takes seconds."""
    if os.getpid() != worker.pid:
        return
    error = sys.exc_info()[1]
    code = error.code if isinstance(error, SystemExit) else 1
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


class GunicornLog:
    """Passes Gunicorn's entries to our log; the platform logs the requests."""

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self._log = logging.getLogger("gunicorn")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def access(self, *_arguments: object) -> None:
        pass

    setup = reopen_files = close_on_exec = access
