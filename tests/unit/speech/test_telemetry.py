"""ONNX Runtime tells nobody what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infra.local.configuration.options import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("module", ["speech.networks.session", "importing.rvc.exports.trial"])
def test_the_runtime_keeps_nothing_to_send(tmp_path: Path, module: str) -> None:
    """What it would send lies in the home folder until it is sent."""
    code = f"import {module}, onnxruntime"
    usual = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    environment = usual | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}

    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
