"""How natural speech sounds, as two networks guess that listeners would say, from 1 to 5."""

from __future__ import annotations

import contextlib
import io
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from training.judges.errors import JudgeMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from training.sound.features import Floats

_LOUDEST = 0.95


class Naturalness(Protocol):
    """Guesses what listeners would say."""

    def judge(self, wave: Floats) -> dict[str, float]:
        """Return the marks of a 16 kHz recording by their names."""


class Dnsmos:
    """DNSMOS (C. Reddy et al., "DNSMOS P.835", ICASSP 2022): overall, signal and P.808.

    Raises:
        JudgeMissingError: it is not installed.
    """

    def __init__(self) -> None:
        try:
            from speechmos import dnsmos  # noqa: PLC0415 - optional
        except ImportError as error:
            raise JudgeMissingError(f"speechmos: {error}") from error
        self._run = dnsmos.run

    def judge(self, wave: Floats) -> dict[str, float]:
        """See Naturalness."""
        marks = self._run(_within_scale(wave), 16_000)
        return {
            "overall": float(marks["ovrl_mos"]),
            "signal": float(marks["sig_mos"]),
            "p808": float(marks["p808_mos"]),
        }


class DistillMos:
    """Distill-MOS, a single mark for the whole of it.

    B. Stahl and H. Gamper, "Distillation and pruning for scalable self-supervised
    representation-based speech quality assessment", ICASSP 2025.

    Raises:
        JudgeMissingError: it is not installed.
    """

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 - takes seconds

        try:
            with _audio_library(), contextlib.redirect_stdout(io.StringIO()):
                from distillmos import ConvTransformerSQAModel  # noqa: PLC0415 - optional

                self._model = ConvTransformerSQAModel().eval()
        except ImportError as error:
            raise JudgeMissingError(f"distillmos: {error}") from error
        self._torch = torch

    def judge(self, wave: Floats) -> dict[str, float]:
        """See Naturalness."""
        with self._torch.inference_mode():
            mark = self._model(self._torch.from_numpy(_within_scale(wave))[None])
        return {"distillmos": float(mark)}


@contextlib.contextmanager
def _audio_library() -> Iterator[None]:
    """Let distillmos import torchaudio, which it needs for nothing but its own command line.

    There is no torchaudio for every version of torch, so nothing is put in its place.
    """
    name = "torchaudio"
    was_there = name in sys.modules
    sys.modules.setdefault(name, ModuleType(name))
    try:
        yield
    finally:
        if not was_there:
            del sys.modules[name]


def _within_scale(wave: Floats) -> Floats:
    peak = float(np.abs(wave).max(initial=0.0))
    return wave if peak <= _LOUDEST else np.asarray(wave * (_LOUDEST / peak), np.float32)
