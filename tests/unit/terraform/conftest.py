from __future__ import annotations

import pytest

from tests.unit.terraform.reading import TerraformModule, read_module


@pytest.fixture(scope="session")
def terraform() -> TerraformModule:
    return read_module()
