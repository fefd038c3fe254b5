"""The arrangement of AivisSpeech Engine, built from the same parts: `python -m ...text.original`.

One process, one lock around every inference, and graphs that are neither optimised nor rewritten.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import onnxruntime

from functions.compat import main as voicevox
from functions.compat.settings import CompatSettings
from shared.process import settings
from speech.engines.japanese.engine import HtsVoice
from speech.networks import session
from speech.networks.session import GraphSession

if TYPE_CHECKING:
    from collections.abc import Callable


def _unoptimised(make: Callable[..., Any]) -> Callable[..., Any]:
    def options(*arguments: Any, **more: Any) -> Any:
        made = make(*arguments, **more)
        levels = onnxruntime.GraphOptimizationLevel
        made.graph_optimization_level = levels.ORT_DISABLE_ALL
        return made

    return options


def _locked(lock: threading.RLock, run: Callable[..., Any]) -> Callable[..., Any]:
    def alone(*arguments: Any) -> Any:
        with lock:
            return run(*arguments)

    return alone


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    config = settings.load(CompatSettings)
    # What is spoken in two halves takes the lock again.
    lock = threading.RLock()
    with (
        patch.object(session, "_options", _unoptimised(session._options)),  # noqa: SLF001
        patch.object(GraphSession, "run_all", _locked(lock, GraphSession.run_all)),
        patch.object(HtsVoice, "synthesise", _locked(lock, HtsVoice.synthesise)),
    ):
        asyncio.run(voicevox.serve(config))


if __name__ == "__main__":
    main()
