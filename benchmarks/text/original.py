"""The arrangement of AivisSpeech Engine, built from the same parts: `python -m ...original`.

One process, one lock around every inference, and graphs that are not optimised.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import onnxruntime

from functions.convert.live.voicevox import main as voicevox
from functions.convert.live.voicevox.settings import VoicevoxSettings
from functions.convert.serving import serve_until_signal
from shared import settings
from speech.engines.session import GraphSession

if TYPE_CHECKING:
    from collections.abc import Callable


def _unoptimised(make: Callable[..., Any]) -> Callable[..., Any]:
    def options(*arguments: Any, **more: Any) -> Any:
        made = make(*arguments, **more)
        levels = onnxruntime.GraphOptimizationLevel
        made.graph_optimization_level = levels.ORT_DISABLE_ALL
        return made

    return options


def _one_at_a_time(run: Callable[..., Any]) -> Callable[..., Any]:
    lock = threading.Lock()

    def locked(*arguments: Any) -> Any:
        with lock:
            return run(*arguments)

    return locked
