"""The process that decoding processes are forked from.

It starts once, with an empty environment and only the modules that decoding needs, and has a single
thread, so that forking it is safe and fast. It never reads a recording itself. When the other end
of its control socket is closed, for whatever reason, it kills its children and ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Final, NoReturn

from speech.decoding.recordings import demuxing
from speech.decoding.recordings.incoming import Incoming
from speech.decoding.recordings.judging import decode_into, decode_while_it_comes
from speech.decoding.recordings.wire import (
    LENGTH,
    PROCESS_ID,
    READY,
    START,
    START_AND_TELL,
    DecodingJob,
    Exit,
)
from speech.decoding.sandbox.confinement import Confinement

_CONTROL: Final = 0
_DESCRIPTORS_OF_A_JOB: Final = 3
_MAX_DESCRIPTORS: Final = 256
_WRITE_BYTES: Final = 1 << 16

_SHORT_SECONDS: Final = 0.1
"""After so much processor time a decoding process steps back.

A usual recording takes a fifth of it. What takes longer is long or hostile, and must not slow down
what is converted beside it.
"""

_STEPS_BACK: Final = 10
"""By how much its niceness rises then: what is left of the processors is enough for it."""

_LOOK_MILLISECONDS: Final = 50
_CLOCK_OF_A_PROCESS: Final = 2


class Zygote:
    """Forks one process per recording and reports how each ended.

    Each memory page that it changes while a decoding process lives has to be copied, so it works
    with plain descriptors instead of objects.
    """

    def __init__(self, control: socket.socket, confinement: Confinement) -> None:
        self._control = control
        self._confinement = confinement
        self._children: dict[int, int] = {}
        self._eager: set[int] = set()
        self._poll = select.poll()
        self._number = os.getpid()

    def serve(self) -> None:
        """Serve until the control socket is closed, then kill what still runs."""
        control, wake_up = self._control.fileno(), _wake_on_child()
        self._poll.register(control, select.POLLIN)
        self._poll.register(wake_up, select.POLLIN)
        self._control.sendall(READY)
        serving = True
        while serving:
            has_any_ended = False
            for descriptor, _ in self._poll.poll(_LOOK_MILLISECONDS if self._eager else None):
                if descriptor == control:
                    serving = self._accept()
                elif descriptor == wake_up:
                    os.read(wake_up, 4096)
                    has_any_ended = True
                else:
                    # It has not been reaped yet, so no other process has its number.
                    os.kill(self._children[descriptor], signal.SIGKILL)
                    self._poll.unregister(descriptor)
            # Done last, because it closes descriptors that may be in this list.
            if has_any_ended:
                self._reap()
            self._let_long_ones_step_back()
        for child in self._children.values():
            os.kill(child, signal.SIGKILL)

    def _accept(self) -> bool:
        start, descriptors, _, _ = socket.recv_fds(
            self._control, len(START), _DESCRIPTORS_OF_A_JOB, socket.MSG_CMSG_CLOEXEC
        )
        if len(start) == 0:
            return False
        if len(descriptors) == _DESCRIPTORS_OF_A_JOB:
            self._start(*descriptors, is_told=start == START_AND_TELL)
        else:
            for received in descriptors:
                os.close(received)
        return True

    def _start(self, data: int, answer: int, status: int, *, is_told: bool) -> None:
        try:
            child = os.fork()
        except OSError:
            child = -1
        if child == 0:
            told = status if is_told else None
            _become_decoder(data, answer, told, self._number, self._confinement)
        os.close(data)
        os.close(answer)
        os.set_blocking(status, False)
        if child < 0:
            # The machine cannot fork now; this is reported like a process that was killed at once.
            number = PROCESS_ID.pack(0) if is_told else b""
            _tell(status, number + Exit(-signal.SIGKILL, 0.0).pack())
            return
        self._children[status] = child
        if not is_told:
            # Somebody listens to the others while they decode.
            self._eager.add(child)
        self._poll.register(status, select.POLLIN)

    def _reap(self) -> None:
        for status, child in list(self._children.items()):
            reaped, wait_status, usage = os.wait4(child, os.WNOHANG)
            if reaped:
                cpu_seconds = usage.ru_utime + usage.ru_stime
                del self._children[status]
                self._eager.discard(child)
                with contextlib.suppress(KeyError):
                    self._poll.unregister(status)
                _tell(status, Exit(os.waitstatus_to_exitcode(wait_status), cpu_seconds).pack())

    def _let_long_ones_step_back(self) -> None:
        for child in [each for each in self._eager if _processor_seconds(each) > _SHORT_SECONDS]:
            # Not reaped yet, as above.
            with contextlib.suppress(OSError):
                usual = os.getpriority(os.PRIO_PROCESS, child)
                os.setpriority(os.PRIO_PROCESS, child, usual + _STEPS_BACK)
            self._eager.remove(child)


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process; 0 where the system does not tell."""
    try:
        # How Linux names the clock of another process: clock_getcpuclockid(3).
        return time.clock_gettime(~process << 3 | _CLOCK_OF_A_PROCESS)
    except OSError:
        return 0.0


def _tell(status: int, report: bytes) -> None:
    # Writing fails if nobody waits for the recording any more.
    with contextlib.suppress(OSError):
        os.write(status, report)
    os.close(status)


def _wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends."""
    wake_up, signalled = os.pipe()
    os.set_blocking(wake_up, False)
    os.set_blocking(signalled, False)
    signal.signal(signal.SIGCHLD, _ignore_signal)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    return wake_up


def _ignore_signal(_number: int, _frame: object) -> None:
    """Do nothing: the signal also writes to the wake-up descriptor."""


def _become_decoder(
    data: int, answer: int, told: int | None, zygote: int, confinement: Confinement
) -> NoReturn:
    """Decode the recording that comes over `data` into `answer`, and end this process.

    Args:
        data: descriptor of the socket that the recording comes over.
        answer: descriptor of the file for samples and verdict.
        told: descriptor to which this process's number is written, or None.
        zygote: number of the process with which this one ends.
        confinement: takes away what decoding does not need.
    """
    try:
        confinement.die_with_parent(zygote)
        if told is not None:
            os.write(told, PROCESS_ID.pack(os.getpid()))
        signal.set_wakeup_fd(-1)
        first, second = sorted((data, answer))
        os.closerange(0, first)
        os.closerange(first + 1, second)
        os.closerange(second + 1, _MAX_DESCRIPTORS)
        _decode(data, answer, confinement)
    except BaseException:  # noqa: BLE001 - nothing of the zygote may run on in its child
        os._exit(70)
    os._exit(0)


def _decode(data: int, answer_descriptor: int, confinement: Confinement) -> None:
    (length,) = LENGTH.unpack(_read(data, LENGTH.size))
    job = DecodingJob.unpack(_read(data, length))
    confinement.limit(
        cpu_seconds=job.cpu_seconds,
        memory_bytes=job.memory_bytes,
        wall_seconds=job.wall_seconds,
        answer_bytes=job.answer_bytes,
    )
    confined = confinement.filter_system_calls()
    if job.incoming_bytes:
        with open(answer_descriptor, "wb", buffering=_WRITE_BYTES, closefd=False) as listener:
            incoming = Incoming(data, job.incoming_bytes, before_read=listener.flush)
            decode_while_it_comes(listener, incoming, job, confined=confined)
        return
    with open(answer_descriptor, "wb", buffering=_WRITE_BYTES, closefd=False) as answer:
        verdict = decode_into(answer, _read(data), job, confined=confined)
        answer.write(verdict.pack())


def _read(descriptor: int, size: int | None = None) -> bytes:
    """Read `size` bytes, or all that come before the end."""
    pieces: list[bytes] = []
    missing = sys.maxsize if size is None else size
    while missing > 0:
        piece = os.read(descriptor, min(missing, 1 << 18))
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def main() -> None:
    """Run the zygote on the control socket that is its standard input."""
    # A service that is asked to stop may still finish a recording, so these signals do not end the
    # zygote: it ends when the control socket is closed, which happens when the service ends.
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_DESCRIPTORS, most))
    demuxing.warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(socket.socket(fileno=os.dup(_CONTROL)), Confinement()).serve()
