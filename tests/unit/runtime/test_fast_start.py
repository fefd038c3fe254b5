"""Packages whose own code waits until somebody needs it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from shared.runtime.fast_start import bare_packages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make a package whose own code imports one of its modules, and which has another one."""
    folder = tmp_path / "made_up" / "inner"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").write_text("from made_up.inner.heavy import weight\n")
    (folder / "heavy.py").write_text("weight = 1000\n")
    (folder / "light.py").write_text("weight = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "made_up.inner"
    for name in [name for name in sys.modules if name.startswith("made_up")]:
        del sys.modules[name]


def test_a_module_is_imported_without_its_packages_code_which_runs_when_somebody_needs_it(
    package: str,
) -> None:
    with bare_packages(package):
        light = import_module(f"{package}.light")

    assert light.weight == 1
    assert f"{package}.heavy" not in sys.modules
    inner = import_module("made_up").inner
    assert (inner.weight, inner.light) == (1000, light)
    with pytest.raises(AttributeError, match=r"module 'made_up\.inner' has no attribute 'height'"):
        _ = inner.height


def test_a_package_that_was_imported_before_stays_as_it_is_and_a_missing_one_is_named(
    package: str,
) -> None:
    before = import_module(package)
    with bare_packages(package):
        import_module(f"{package}.light")

    assert import_module(package) is before
    missing = pytest.raises(ModuleNotFoundError, match=r"No module named 'shared\.nowhere'")
    with missing, bare_packages("shared.nowhere"):
        pass
