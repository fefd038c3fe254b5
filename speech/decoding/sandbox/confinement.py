"""Takes away from a process everything that decoding a recording does not need.

The first protection is limits of the operating system: the limit of descriptors is zero, so that
no new file, socket or pipe can be opened; the one open file cannot grow beyond the size of an
answer; processor time and memory are limited. Where Linux supports it, a system call filter
(seccomp, see the kernel's Documentation/userspace-api/seccomp_filter.rst) then allows only calls
that concern memory, the clock and descriptors that are already open, so that files cannot be
changed or removed by name either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

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
_INSTRUCTION_BYTES: Final = 8


class _Machine(NamedTuple):
    audit_architecture: int
    allowed: dict[str, int]


# Numbers from the kernel's system call tables for the two machines that containers run on.
_MACHINES: Final = {
    "x86_64": _Machine(
        0xC000003E,
        {
            "read": 0,
            "write": 1,
            "close": 3,
            "fstat": 5,
            "lseek": 8,
            "mmap": 9,
            "mprotect": 10,
            "munmap": 11,
            "brk": 12,
            "rt_sigaction": 13,
            "rt_sigprocmask": 14,
            "rt_sigreturn": 15,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "getpid": 39,
            "exit": 60,
            "sigaltstack": 131,
            "gettid": 186,
            "futex": 202,
            "sched_getaffinity": 204,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "exit_group": 231,
            "getrandom": 318,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            "close": 57,
            "lseek": 62,
            "read": 63,
            "write": 64,
            "fstat": 80,
            "exit": 93,
            "exit_group": 94,
            "futex": 98,
            "clock_gettime": 113,
            "sched_getaffinity": 123,
            "sched_yield": 124,
            "restart_syscall": 128,
            "sigaltstack": 132,
            "rt_sigaction": 134,
            "rt_sigprocmask": 135,
            "rt_sigreturn": 139,
            "getpid": 172,
            "gettid": 178,
            "brk": 214,
            "munmap": 215,
            "mremap": 216,
            "mmap": 222,
            "mprotect": 226,
            "madvise": 233,
            "getrandom": 278,
        },
    ),
}


class Confinement:
    """Confines processes; whatever can be prepared before they are forked is done in advance."""

    def __init__(self) -> None:
        is_linux = sys.platform == "linux"
        machine = _MACHINES.get(platform.machine()) if is_linux else None
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl if is_linux else None
        self._filter = None if machine is None else _Filter.of(_program(machine))
        self._address_space = _address_space()
        # A process inherits the signals that its parent ignores.
        for ends_a_process in (signal.SIGALRM, signal.SIGXCPU):
            signal.signal(ends_a_process, signal.SIG_DFL)

    def die_with_parent(self, parent: int) -> None:
        """End this process as soon as the process `parent`, its parent, ends (Linux only)."""
        self._control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    def limit(
        self, *, cpu_seconds: int, memory_bytes: int, wall_seconds: float, answer_bytes: int = 0
    ) -> None:
        """Set the operating system's limits for this process; they cannot be raised again.

        Args:
            cpu_seconds: processor time from the start of the process, then SIGXCPU.
            memory_bytes: address space beyond what was in use when this object was made.
            wall_seconds: time from now, then SIGALRM.
            answer_bytes: size to which a file that is already open may grow.
        """
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)
        # The soft limit sends SIGXCPU, which tells why the process ended; the hard one SIGKILL.
        _lower(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)
        _lower(resource.RLIMIT_AS, self._address_space + memory_bytes)
        _lower(resource.RLIMIT_FSIZE, answer_bytes)
        for nothing_of in (
            resource.RLIMIT_CORE,
            resource.RLIMIT_NOFILE,
            resource.RLIMIT_NPROC,
        ):
            _lower(nothing_of, 0)

    def filter_system_calls(self) -> bool:
        """Refuse (EPERM) system calls that decoding does not need; return whether that worked."""
        if self._filter is None:
            return False
        self._control(_PR_SET_NO_NEW_PRIVS, 1)
        address = ctypes.addressof(self._filter)
        return self._control(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, address) == 0

    def _control(self, option: int, *arguments: int) -> int:
        if self._prctl is None:
            return -1
        padded = (*arguments, 0, 0, 0, 0)[:4]
        return int(self._prctl(option, *(ctypes.c_ulong(argument) for argument in padded)))


class _Filter(ctypes.Structure):
    """The kernel's `struct sock_fprog`: a number of instructions and where they are."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    @classmethod
    def of(cls, program: bytes) -> _Filter:
        memory = ctypes.create_string_buffer(program, len(program))
        filter_ = cls(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(memory))
        # The structure holds only an address, so the memory must live as long as the structure.
        filter_.memory = memory
        return filter_


def _program(machine: _Machine) -> bytes:
    numbers = sorted(machine.allowed.values())
    program = [
        _instruction(_LOAD_WORD, _OFFSET_ARCHITECTURE),
        _instruction(_JUMP_IF_EQUAL, machine.audit_architecture, if_true=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD_WORD, _OFFSET_NUMBER),
    ]
    program += [
        _instruction(_JUMP_IF_EQUAL, number, if_true=len(numbers) - position)
        for position, number in enumerate(numbers)
    ]
    program += [_instruction(_RETURN, _REFUSE), _instruction(_RETURN, _ALLOW)]
    return b"".join(program)


def _instruction(code: int, operand: int, *, if_true: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, 0, operand)


def _lower(kind: int, soft: int, hard: int | None = None) -> None:
    _, ceiling = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()
