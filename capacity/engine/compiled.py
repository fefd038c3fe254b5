"""Compiling functions to machine code: a million voices are some thirty million events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., object]")


def compiled(function: _Function) -> _Function:
    """Compile a function at its first call; keep the result on disk, and let other threads run."""
    return cast("_Function", njit(cache=True, nogil=True, error_model="numpy")(function))
