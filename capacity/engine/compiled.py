"""Compiling functions to machine code: a million voices are some thirty million events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_Function = TypeVar("_Function", bound="Callable[..., object]")


def compiled(function: _Function) -> _Function:
    """Compile a function at its first call; keep the result on disk, and let other threads run."""
    return cast("_Function", njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: _Function) -> _Function:
    """Compile a function into those that call it: a call would copy the whole state's head."""
    options = {"nogil": True, "error_model": "numpy", "inline": "always"}
    return cast("_Function", njit(**options)(function))


@intrinsic
def _as_pointer(_context: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@compiled
def borrowed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that does not count who refers to it; the array must outlive it.

    Counting references takes nine tenths of the time of an event, because every call of a function
    counts every array that it is given.
    """
    view: npt.NDArray[Any] = carray(_as_pointer(array.ctypes.data), array.shape, array.dtype)
    return view
