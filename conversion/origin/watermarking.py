"""Which watermark a deployment puts into its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, SecretStr, model_validator

from shared.process.settings import CommaSeparated, EnvironmentSettings, SecretKeys
from speech.results.watermark.marked import Marker
from speech.results.watermark.pattern import WatermarkKey

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_BITS = (1 << 16) - 1


class WatermarkSettings(EnvironmentSettings):
    """The settings of whatever marks results, or looks for the mark.

    Attributes:
        watermark_keys: the secret keys, separated by commas: the first one marks, all of them find.
            Without one nothing is marked.
        watermark_bits: the 16 bits that are put into every result, as a number.
        watermark_character_bits: other numbers for single characters, each CHARACTER=NUMBER,
            separated by commas.
    """

    watermark_keys: SecretKeys = ()
    watermark_bits: Annotated[int, Field(ge=0, le=_MOST_BITS)] = 1
    watermark_character_bits: CommaSeparated = ()

    @model_validator(mode="after")
    def _check_character_bits(self) -> Self:
        read_character_bits(self.watermark_character_bits)
        return self


def open_marker(config: WatermarkSettings) -> Marker | None:
    """Build the watermark of the deployment; None without a key."""
    keys = watermark_keys(config.watermark_keys)
    if not keys:
        return None
    return Marker(
        keys[0], config.watermark_bits, read_character_bits(config.watermark_character_bits)
    )


def watermark_keys(secrets: tuple[SecretStr, ...]) -> tuple[WatermarkKey, ...]:
    """Return the keys of secrets from the settings."""
    return tuple(WatermarkKey(each.get_secret_value().encode()) for each in secrets)


def read_character_bits(entries: tuple[str, ...]) -> Mapping[str, int]:
    """Read entries of the form CHARACTER=NUMBER.

    Raises:
        ValueError: one has another form, or a number does not have 16 bits.
    """
    found: dict[str, int] = {}
    for entry in entries:
        character, _, number = entry.partition("=")
        if not character or not number.isdecimal() or int(number) > _MOST_BITS:
            raise ValueError(
                f"expected CHARACTER=NUMBER with a number from 0 to {_MOST_BITS}, found {entry!r}"
            )
        found[character.strip()] = int(number)
    return found
