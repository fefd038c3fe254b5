from __future__ import annotations

import importlib
import sys

import pytest

from tools.benchmarks.cold_start import missing_packages
from tools.benchmarks.start_parts import MissingPackages


def test_packages_that_are_not_deployed_are_known_by_the_names_that_are_imported() -> None:
    of_on_upload, of_api = missing_packages("on_upload"), missing_packages("api")

    assert {"pytest", "numpy", "fastapi"} <= set(of_on_upload)
    assert "fastapi" not in of_api
    assert "rich" in of_api
    for absent in (of_on_upload, of_api):
        assert not {"google", "grpc", "flask", "pydantic", "starlette"} & set(absent)


def test_a_package_that_is_not_deployed_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [MissingPackages(frozenset({"this"})), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "keyword", raising=False)

    with pytest.raises(ModuleNotFoundError, match="this is not deployed"):
        importlib.import_module("this")
    assert importlib.import_module("keyword").iskeyword("if")
