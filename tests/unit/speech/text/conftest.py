from __future__ import annotations

import pytest

from speech.text.reading import Reader


@pytest.fixture(scope="session")
def reader() -> Reader:
    return Reader()
