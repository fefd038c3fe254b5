"""Checkpoints of trainings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


class Checkpoint:
    """The states of networks and optimisers by name, in a file that is replaced as a whole."""

    def __init__(self, file: Path, parts: Mapping[str, Any]) -> None:
        self._file, self._parts = file, parts

    def resume(self) -> int:
        if not self._file.exists():
            return 0
        saved = torch.load(self._file, weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
        return int(saved["step"])

    def save(self, step: int) -> None:
        partial = self._file.with_suffix(".partial")
        states = {name: part.state_dict() for name, part in self._parts.items()}
        torch.save({**states, "step": step}, partial)
        partial.replace(self._file)


def approach(average: torch.nn.Module, current: torch.nn.Module, kept: float) -> None:
    """Move an average of weights towards the current ones; keep this share of it."""
    with torch.no_grad():
        for one, other in zip(average.parameters(), current.parameters(), strict=True):
            one.lerp_(other, 1 - kept)
