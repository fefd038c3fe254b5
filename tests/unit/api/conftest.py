from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.api.stage import ApiStage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path) -> ApiStage:
    return ApiStage(folder=tmp_path)
