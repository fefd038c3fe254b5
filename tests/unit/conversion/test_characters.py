from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from conversion.characters.lending import BuiltInCharacters, LoadedCharacter
from shared.voices.voice import ErrorCode, VoiceError
from tests.support.characters import a_manifest

if TYPE_CHECKING:
    from speech.engines.interface.engine import Engine

MEI = LoadedCharacter(a_manifest("mei"), cast("Engine", None))


async def test_a_built_in_character_is_lent() -> None:
    async with BuiltInCharacters({"mei": MEI}).using("mei") as character:
        assert character is MEI


async def test_a_character_that_there_is_not_is_named() -> None:
    with pytest.raises(VoiceError, match="'nobody'") as caught:
        async with BuiltInCharacters({"mei": MEI}).using("nobody"):
            pass

    assert caught.value.code is ErrorCode.UNKNOWN_CHARACTER
