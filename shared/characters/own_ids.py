"""The ids of characters that visitors make of their own voice: nobody can guess one."""

from __future__ import annotations

import base64
import re
import secrets
from typing import Final

PREFIX: Final = "own-"
_RANDOM_BYTES: Final = 16
_ID: Final = re.compile(f"{PREFIX}[a-z2-7]{{26}}")


def new_character_id() -> str:
    """Draw an id of 128 random bits."""
    drawn = base64.b32encode(secrets.token_bytes(_RANDOM_BYTES)).decode()
    return PREFIX + drawn.rstrip("=").lower()


def is_own(character_id: str) -> bool:
    """Whether an id is that of a visitor's own character."""
    return _ID.fullmatch(character_id) is not None
