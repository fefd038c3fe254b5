"""The process that decoding processes are forked from.

It is started once, with nothing in its environment and nothing imported but what decoding needs,
and has a single thread, so that forking it is safe and cheap. It does no decoding of its own and
never looks at a recording. It ends when the other end of its control socket is closed, for
whatever reason, and takes its children with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn

from shared.voice import ErrorCode, VoiceError
from speech.audio import demuxing
from speech.audio.confinement import Confinement
from speech.audio.wire import PROCESS_ID, READY, START, START_AND_TELL, Exit, Job, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTROL: Final = 0
_DESCRIPTORS_OF_A_JOB: Final = 3
_MAX_DESCRIPTORS: Final = 256
_WRITE_BYTES: Final = 1 << 16


class Zygote:
    """Forks one process per recording and reports how each ended.

    What it touches while a decoding process lives is copied, page by page; so it works on bare
    descriptors.
    """

    def __init__(self, control: socket.socket, confinement: Confinement) -> None:
        self._control = control
        self._confinement = confinement
        self._children: dict[int, int] = {}
        self._poll = select.poll()
        self._number = os.getpid()
        # Python's own fork runs what modules have registered for it, such as new locks for threads
        # and log handlers: half a millisecond for what is not needed here.
        self._fork = ctypes.PyDLL(None).fork

    def serve(self) -> None:
        """Serve until the control socket is closed, then kill what still runs."""
        control, wake_up = self._control.fileno(), _wake_on_child()
        self._poll.register(control, select.POLLIN)
        self._poll.register(wake_up, select.POLLIN)
        self._control.sendall(READY)
        serving = True
        while serving:
            has_any_ended = False
            for descriptor, _ in self._poll.poll():
                if descriptor == control:
                    serving = self._accept()
                elif descriptor == wake_up:
                    os.read(wake_up, 4096)
                    has_any_ended = True
                else:
                    self._give_up(descriptor)
            # Last, because it closes descriptors that may have been among these.
            if has_any_ended:
                self._reap()
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
        child = self._fork()
        if child == 0:
            told = status if is_told else None
            _become_decoder(data, answer, told, self._number, self._confinement)
        os.close(data)
        os.close(answer)
        os.set_blocking(status, False)
        if child < 0:
            # The machine has no room for a process now: as if it had been killed at once.
            number = PROCESS_ID.pack(0) if is_told else b""
            _tell(status, number + Exit(-signal.SIGKILL, 0.0).pack())
            return
        self._children[status] = child
        self._poll.register(status, select.POLLIN)

    def _give_up(self, status: int) -> None:
        """Kill a process, as nobody waits for its recording any more."""
        # It is not reaped yet, so its number is still its own.
        os.kill(self._children[status], signal.SIGKILL)
        self._poll.unregister(status)

    def _reap(self) -> None:
        for status, child in list(self._children.items()):
            reaped, wait_status, usage = os.wait4(child, os.WNOHANG)
            if reaped:
                cpu_seconds = usage.ru_utime + usage.ru_stime
                del self._children[status]
                with contextlib.suppress(KeyError):
                    self._poll.unregister(status)
                _tell(status, Exit(os.waitstatus_to_exitcode(wait_status), cpu_seconds).pack())


def _tell(status: int, report: bytes) -> None:
    # It fails if nobody waits for the recording any more.
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
    """Do nothing: the wake-up descriptor tells."""


def _become_decoder(
    data: int, answer: int, told: int | None, zygote: int, confinement: Confinement
) -> NoReturn:
    """Decode the recording that comes over `data` into `answer`, and end this process.

    Args:
        data: descriptor of the socket that the recording comes over.
        answer: descriptor of the file for samples and verdict.
        told: descriptor that this process's number goes to, if anybody wants to know it.
        zygote: number of the process that this one may not outlive.
        confinement: what confines it.
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
    job = Job.unpack(_read(data, Job.SIZE))
    confinement.limit(
        cpu_seconds=job.cpu_seconds,
        memory_bytes=job.memory_bytes,
        wall_seconds=job.wall_seconds,
        answer_bytes=job.answer_bytes,
    )
    confined = confinement.filter_system_calls()
    with open(answer_descriptor, "wb", buffering=_WRITE_BYTES, closefd=False) as answer:
        answer.write(_judge(_read(data), job, answer, confined=confined).pack())


def _judge(recording: bytes, job: Job, answer: BinaryIO, *, confined: bool) -> Verdict:
    try:
        demuxer = demuxing.Demuxer(recording, job.container)
        answer.writelines(demuxer.chunks(job.max_seconds, job.answer_bytes - Verdict.SIZE))
    except VoiceError as error:
        return Verdict(code=error.code, message=error.message, confined=confined)
    except MemoryError:
        return Verdict(
            code=ErrorCode.TOO_COMPLEX,
            message="The recording needs too much memory to be decoded.",
            confined=confined,
        )
    except OSError:
        # The answer cannot be written; there is nobody to tell anything.
        raise
    except Exception as error:  # noqa: BLE001 - whatever a recording breaks, it is broken
        return Verdict(
            code=ErrorCode.CORRUPT,
            message=f"The recording cannot be decoded ({type(error).__name__}); record it again.",
            confined=confined,
        )
    found = demuxer.format
    if found is None:
        raise RuntimeError("a recording without a format was accepted")
    return Verdict(
        codec=found.codec,
        sample_type=found.sample_type,
        sample_rate=found.sample_rate,
        channels=found.channels,
        weights=found.weights,
        samples=demuxer.samples,
        damaged=demuxer.damaged,
        confined=confined,
    )


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


def _ignore(signals: Iterable[signal.Signals]) -> None:
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Run the zygote on the control socket that is its standard input."""
    # When the service is asked to stop it may still finish a recording: the end of the control
    # socket, which comes with the end of the service, ends the zygote.
    _ignore((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_DESCRIPTORS, most))
    demuxing.warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(socket.socket(fileno=os.dup(_CONTROL)), Confinement()).serve()
