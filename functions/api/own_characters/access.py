"""Which visitors' own characters somebody may speak with, and what their owners call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.own_characters.own_character import Visibility
from shared.own_characters.store import UnknownOwnCharacterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functions.api.taking.choice import Visitor
    from shared.own_characters.store import OwnCharacterStore

_MOST_PUBLIC: Final = 200
"""How many public ones are listed at most, those that were made public first."""


@dataclass(frozen=True, slots=True)
class OwnCharacterAccess:
    """Answers what the list of characters cannot know by the bucket alone.

    Attributes:
        store: the characters' documents.
        allows_public: whether the operator lets owners show theirs to everybody; otherwise one that
            is public can be used by its link.
    """

    store: OwnCharacterStore
    allows_public: bool

    async def name_for(self, character_id: str, visitor: Visitor) -> str | None:
        """Return a character's name; None if there is none that this visitor may speak with.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        try:
            character = (await self.store.read(character_id)).character
        except UnknownOwnCharacterError:
            return None
        is_shared = character.visibility is not Visibility.PRIVATE
        if not is_shared and not character.is_owned_by(visitor.uid, visitor.key):
            return None
        return character.name

    async def public(self) -> Mapping[str, str]:
        """Return the names of the characters that everybody may see, by id.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        if not self.allows_public:
            return {}
        found = await self.store.public(_MOST_PUBLIC)
        return {each.character_id: each.name for each in found}
