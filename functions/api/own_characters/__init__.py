"""Characters that visitors make of their own voice; only where the operator allows them."""

from typing import Final

KEY_HEADER: Final = "Own-Character-Key"
"""The header with the secret that the owner was told when the character was begun."""
