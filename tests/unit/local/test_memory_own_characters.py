from __future__ import annotations

import pytest

from infra.local.memory.own_characters import MemoryOwnCharacters
from tests.support.own_character_contract import OwnCharacterStoreContract


class TestMemoryOwnCharacters(OwnCharacterStoreContract):
    @pytest.fixture
    def store(self) -> MemoryOwnCharacters:
        return MemoryOwnCharacters()
