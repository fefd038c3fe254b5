"""What a service does at SIGTERM and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_signal(number: int, act: Callable[[], object]) -> None:
    """Call a function in the running event loop when a signal comes.

    Args:
        number: of the signal.
        act: takes nothing and does not wait.
    """
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:
        # Windows: a handler interrupts the main thread, and the loop is told from there.
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
