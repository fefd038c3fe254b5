"""Compiling functions to machine code: a million voices are some thirty million events.

What was compiled is kept in `.local/compiled`, in a folder that is named after the text of all
modules of the engine. Numba itself would look only at the module of the function that it keeps,
and would go on using what that function once called.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numba
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Function = TypeVar("_Function", bound="Callable[..., object]")

_ENGINE: Final = Path(__file__).parent
_KEPT: Final = _ENGINE.parents[1] / ".local" / "compiled"
_OPTIONS: Final = {"nogil": True, "error_model": "numpy"}
_WITHOUT_WRAPPERS: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def entry(function: _Function) -> _Function:
    """Compile a function that Python calls, with all that it calls, and keep the result on disk.

    Other threads run while it does.
    """
    with _kept_in(_folder()) as is_kept:
        return cast("_Function", numba.njit(cache=is_kept, **_OPTIONS)(function))


def compiled(function: _Function) -> _Function:
    """Compile a function that only compiled ones call."""
    return cast("_Function", numba.njit(**_OPTIONS, **_WITHOUT_WRAPPERS)(function))


def inlined(function: _Function) -> _Function:
    """Compile a function into those that call it: a call would copy the whole state's head."""
    options = {**_OPTIONS, **_WITHOUT_WRAPPERS, "forceinline": True}
    return cast("_Function", numba.njit(**options)(function))


@intrinsic
def borrowed(_context: Any, array: Any) -> Any:
    """Return a view that does not count who refers to it; the array must outlive it.

    Counting references takes nine tenths of the time of an event, because every call of a function
    counts every array that it is given.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        view = cgutils.create_struct_proxy(array)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()  # noqa: SLF001 - Numba's own name for it

    return array(array), generate


def _folder() -> Path:
    digest = hashlib.sha256()
    for module in sorted(_ENGINE.glob("*.py")):
        digest.update(module.read_bytes())
    return _KEPT / digest.hexdigest()[:16]


@contextmanager
def _kept_in(folder: Path) -> Iterator[bool]:
    """Let Numba keep there what is decorated meanwhile; yield whether it can be written."""
    before = numba.config.CACHE_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        yield False
        return
    numba.config.CACHE_DIR = str(folder)
    try:
        yield True
    finally:
        numba.config.CACHE_DIR = before
