"""Runs a module without the means that Windows and, in part, macOS lack."""

WITHOUT_LINUX = """
import asyncio, os, runpy, signal, socket, sys

# As in a terminal, also where the tests run in the background of a shell, which ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
del socket.MSG_CMSG_CLOEXEC, os.fork, os.memfd_create, os.pidfd_open, os.sched_getaffinity
del os.killpg, os.mkfifo, signal.SIGHUP, socket.SO_REUSEPORT
for module in ("fcntl", "grp", "pwd", "resource", "gunicorn"):
    sys.modules[module] = None

def refuse(*_arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""What `python -c` gets, before the module's name and its arguments."""
