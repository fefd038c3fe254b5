import pytest

from shared.speech.text.front_end import Reader


@pytest.fixture(scope="session")
def reader() -> Reader:
    return Reader()
