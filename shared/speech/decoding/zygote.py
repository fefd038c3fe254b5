"""The process that decoding processes are forked from.

It starts once, with an empty environment and only the modules that decoding needs, and has a single
thread, so that forking it is safe and fast. It never reads a recording itself. When the other end
of its control socket is closed, for any reason, it kills its children and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from shared.speech.decoding import demuxing
from shared.speech.decoding.decode_process import decode_into, decode_stream
from shared.speech.decoding.demuxing import IncomingFile
from shared.speech.decoding.wire import (
    LENGTH,
    PROCESS_ID,
    READY,
    START,
    START_AND_TELL,
    DecodingJob,
    ProcessExit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2

# Classic BPF as the kernel's filter interface defines it.
_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_OFFSET_NUMBER: Final = 0
_OFFSET_ARCHITECTURE: Final = 4
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_KILL: Final = 0x80000000


# The architecture's number for audits, and those of the calls that are allowed, from the kernel's
# tables for the two machines that containers run on.
# fmt: off
_MACHINES: Final = {
    "x86_64": (0xC000003E, {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10,
        "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
        "sched_yield": 24, "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60,
        "sigaltstack": 131, "gettid": 186, "futex": 202, "sched_getaffinity": 204,
        "restart_syscall": 219, "clock_gettime": 228, "exit_group": 231, "getrandom": 318,
    }),
    "aarch64": (0xC00000B7, {
        "close": 57, "lseek": 62, "read": 63, "write": 64, "fstat": 80, "exit": 93,
        "exit_group": 94, "futex": 98, "clock_gettime": 113, "sched_getaffinity": 123,
        "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134,
        "rt_sigprocmask": 135, "rt_sigreturn": 139, "getpid": 172, "gettid": 178, "brk": 214,
        "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233,
        "getrandom": 278,
    }),
}
# fmt: on


class Confinement:
    """Limits for processes, prepared as far as possible before they are forked."""

    def __init__(self) -> None:
        machine = _MACHINES.get(platform.machine())
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._filter = None if machine is None else _Filter(*machine)
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        self._address_space = int(pages) * resource.getpagesize()
        # A process inherits the signals that its parent ignores.
        for ends_a_process in (signal.SIGALRM, signal.SIGXCPU):
            signal.signal(ends_a_process, signal.SIG_DFL)

    def die_with_parent(self, parent: int) -> None:
        self._control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    def limit(
        self, *, cpu_seconds: int, memory_bytes: int, wall_seconds: float, answer_bytes: int = 0
    ) -> None:
        """Set the operating system's limits for this process; they cannot be raised again."""

        def lower(kind: int, soft: int, hard: int | None = None) -> None:
            _, ceiling = resource.getrlimit(kind)
            most = sys.maxsize if ceiling == resource.RLIM_INFINITY else ceiling
            resource.setrlimit(kind, (min(soft, most), min(soft if hard is None else hard, most)))

        signal.setitimer(signal.ITIMER_REAL, wall_seconds)
        # The soft limit sends SIGXCPU, which tells why the process ended; the hard one SIGKILL.
        lower(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)
        lower(resource.RLIMIT_AS, self._address_space + memory_bytes)
        lower(resource.RLIMIT_FSIZE, answer_bytes)
        for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
            lower(kind, 0)

    def filter_system_calls(self) -> bool:
        """Refuse (EPERM) system calls that decoding does not need; return whether that worked."""
        if self._filter is None:
            return False
        self._control(_PR_SET_NO_NEW_PRIVS, 1)
        address = ctypes.addressof(self._filter)
        return self._control(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, address) == 0

    def _control(self, option: int, *arguments: int) -> int:
        padded = (*arguments, 0, 0, 0, 0)[:4]
        return int(self._prctl(option, *(ctypes.c_ulong(argument) for argument in padded)))


class _Filter(ctypes.Structure):
    """The kernel's `struct sock_fprog`: a number of instructions and their address."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    def __init__(self, architecture: int, allowed: Mapping[str, int]) -> None:
        numbers = sorted(allowed.values())
        # Each with its operand, and the instructions to skip if they are equal.
        program = [
            (_LOAD_WORD, _OFFSET_ARCHITECTURE, 0),
            (_JUMP_IF_EQUAL, architecture, 1),
            (_RETURN, _KILL, 0),
            (_LOAD_WORD, _OFFSET_NUMBER, 0),
            *((_JUMP_IF_EQUAL, each, len(numbers) - at) for at, each in enumerate(numbers)),
            (_RETURN, _REFUSE, 0),
            (_RETURN, _ALLOW, 0),
        ]
        code = b"".join(struct.pack("=HBBI", code, skip, 0, of) for code, of, skip in program)
        # The structure holds only an address, so the memory must live as long as the structure.
        self.memory = ctypes.create_string_buffer(code, len(code))
        super().__init__(len(program), ctypes.addressof(self.memory))


_CONTROL: Final = 0
_DESCRIPTORS_OF_A_JOB: Final = 3
_MAX_DESCRIPTORS: Final = 256
_WRITE_BYTES: Final = 1 << 16

# A usual recording takes a fifth of this processor time. One that takes longer is long or hostile,
# and must not slow down the conversions beside it: its niceness rises by so much.
_SHORT_SECONDS: Final = 0.1
_STEPS_BACK: Final = 10

_LOOK_MILLISECONDS: Final = 50
_CLOCK_OF_A_PROCESS: Final = 2


class Zygote:
    """Forks one process per recording and reports how each ended.

    Each page that it changes while a process lives is copied: it works with plain descriptors.
    """

    def __init__(self, control: socket.socket, confinement: Confinement) -> None:
        self._control = control
        self._confinement = confinement
        self._children: dict[int, int] = {}
        self._eager: set[int] = set()
        self._poll = select.poll()
        self._number = os.getpid()

    def serve(self) -> None:
        # A descriptor that becomes readable when a child ends; the signal writes to it.
        wake_up, signalled = os.pipe()
        for end in (wake_up, signalled):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        control = self._control.fileno()
        self._poll.register(control, select.POLLIN)
        self._poll.register(wake_up, select.POLLIN)
        self._control.sendall(READY)
        serving = True
        while serving:
            has_child_ended = False
            for descriptor, _ in self._poll.poll(_LOOK_MILLISECONDS if self._eager else None):
                if descriptor == control:
                    serving = self._accept()
                elif descriptor == wake_up:
                    os.read(wake_up, 4096)
                    has_child_ended = True
                else:
                    # It has not been reaped yet, so no other process has its number.
                    os.kill(self._children[descriptor], signal.SIGKILL)
                    self._poll.unregister(descriptor)
            # Done last, because it closes descriptors that may be in this list.
            if has_child_ended:
                self._reap()
            self._lower_priority_of_long_ones()
        for child in self._children.values():
            os.kill(child, signal.SIGKILL)

    def _accept(self) -> bool:
        start, descriptors, _, _ = socket.recv_fds(
            self._control, len(START), _DESCRIPTORS_OF_A_JOB, socket.MSG_CMSG_CLOEXEC
        )
        if len(start) == 0:
            return False
        if len(descriptors) == _DESCRIPTORS_OF_A_JOB:
            self._start_child(*descriptors, sends_id=start == START_AND_TELL)
        else:
            for received in descriptors:
                os.close(received)
        return True

    def _start_child(self, data: int, answer: int, status: int, *, sends_id: bool) -> None:
        try:
            child = os.fork()
        except OSError:
            child = -1
        if child == 0:
            become_decoder(
                data, answer, status if sends_id else None, self._number, self._confinement
            )
        os.close(data)
        os.close(answer)
        os.set_blocking(status, False)
        if child < 0:
            # The machine cannot fork now; this is reported like a process that was killed at once.
            number = PROCESS_ID.pack(0) if sends_id else b""
            _report(status, number + ProcessExit(-signal.SIGKILL, 0.0).pack())
            return
        self._children[status] = child
        if not sends_id:
            # The service that asks for the number of a process looks after it itself.
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
                exit_ = ProcessExit(os.waitstatus_to_exitcode(wait_status), cpu_seconds)
                _report(status, exit_.pack())

    def _lower_priority_of_long_ones(self) -> None:
        # They have not been reaped yet, as above.
        for child in tuple(self._eager):
            with contextlib.suppress(OSError):
                # Linux's name of the clock of another process: clock_getcpuclockid(3).
                if time.clock_gettime(~child << 3 | _CLOCK_OF_A_PROCESS) > _SHORT_SECONDS:
                    self._eager.remove(child)
                    usual = os.getpriority(os.PRIO_PROCESS, child)
                    os.setpriority(os.PRIO_PROCESS, child, usual + _STEPS_BACK)


def _report(status: int, report: bytes) -> None:
    # It fails if nobody waits for the recording any more.
    with contextlib.suppress(OSError):
        os.write(status, report)
    os.close(status)


def become_decoder(
    data: int, answer: int, id_listener: int | None, zygote: int, confinement: Confinement
) -> NoReturn:
    """Decode the recording from `data` into the file `answer`, and end this process."""
    try:
        confinement.die_with_parent(zygote)
        if id_listener is not None:
            os.write(id_listener, PROCESS_ID.pack(os.getpid()))
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
    with open(answer_descriptor, "wb", buffering=_WRITE_BYTES, closefd=False) as answer:
        if job.incoming_bytes:
            incoming = IncomingFile(data, job.container, job.incoming_bytes, answer.flush)
            decode_stream(answer, incoming, job, confined=confined)
        else:
            answer.write(decode_into(answer, _read(data), job, confined=confined).pack())


def _read(descriptor: int, size: int = sys.maxsize) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(descriptor, min(size, 1 << 18))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def main() -> None:
    # A service that is asked to stop may still finish a recording, so these signals do not end the
    # zygote: it ends when the control socket is closed, which happens when the service ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_DESCRIPTORS, most))
    demuxing.warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    Zygote(socket.socket(fileno=os.dup(_CONTROL)), Confinement()).serve()
