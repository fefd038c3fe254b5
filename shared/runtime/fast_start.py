"""Ways to start fast, each worth a twentieth of a start or more.

- Modules that are imported leave hardly any garbage. A process that begins with `pause_collector`
  imports without the collector, which takes a tenth of a start.
- A full collection stops all work under way. What is there when a process serves lives as long as
  the process, so `spare_what_is_there` lets the collector look at later objects alone; processes
  that are forked share the earlier ones.
- A generated package of Google imports all services that it has, in all ways in which they can be
  called. A program that only publishes needs a third of Pub/Sub's, and the rest is a tenth of a
  function's start: `bare_packages`.
- Elsewhere imports are deferred, each with the reason beside it.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


def pause_collector() -> None:
    """Collect no garbage until `spare_what_is_there`."""
    gc.disable()


def spare_what_is_there() -> None:
    """Collect garbage from now on, among later objects alone."""
    gc.freeze()
    gc.enable()


@contextmanager
def bare_packages(*names: str) -> Iterator[None]:
    """Import modules of some packages without running the packages' own code.

    Afterwards a package runs its code after all when it is asked for a name that it lacks, so that
    other importers notice nothing. A package that was imported before stays as it is.
    """
    bare = [_bare_package(name) for name in names if name not in sys.modules]
    try:
        yield
    finally:
        for package in bare:
            vars(package)["__getattr__"] = partial(_complete, package)


def _bare_package(name: str) -> ModuleType:
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = sys.modules[name] = module_from_spec(spec)
    parent, _, own_name = name.rpartition(".")
    setattr(sys.modules[parent], own_name, package)
    return package


def _complete(package: ModuleType, name: str) -> Any:
    if vars(package).pop("__getattr__", None) is not None:
        spec = package.__spec__
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(package)
            return getattr(package, name)
    raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
