"""Conditions on generation and metageneration that a request may set.

See https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from infra.local.storage.protocol.errors import (
    InvalidArgumentError,
    NotModifiedError,
    PreconditionFailedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def parsed_number(value: str | None, name: str) -> int | None:
    """A non-negative 64-bit number of a query parameter or header, None where it is absent.

    Raises:
        InvalidArgumentError: it is no such number.
    """
    if value is None or value == "":
        return None
    if not (value.isascii() and value.isdigit()) or int(value) >= 2**63:
        raise InvalidArgumentError(f"{name} must be a number, not {value!r}.", parameter=name)
    return int(value)


@dataclass(frozen=True, slots=True)
class Preconditions:
    """Conditions on the live object; generation 0 stands for "there is none"."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str], prefix: str = "if") -> Self:
        """Read `ifGenerationMatch` and its kin (with prefix `ifSource`, those of a copy's source).

        Raises:
            InvalidArgumentError: one is not a number.
        """
        names = (
            f"{prefix}GenerationMatch",
            f"{prefix}GenerationNotMatch",
            f"{prefix}MetagenerationMatch",
            f"{prefix}MetagenerationNotMatch",
        )
        return cls(*(parsed_number(query.get(name), name) for name in names))

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> Self:
        """Read the XML API's headers.

        Raises:
            InvalidArgumentError: one is not a number.
        """
        generation = "x-goog-if-generation-match"
        metageneration = "x-goog-if-metageneration-match"
        return cls(
            generation_match=parsed_number(headers.get(generation), generation),
            metageneration_match=parsed_number(headers.get(metageneration), metageneration),
        )

    def check(self, generation: int, metageneration: int, *, reading: bool = False) -> None:
        """Compare with the live object's numbers (0 and 0 where there is none).

        Raises:
            PreconditionFailedError: a condition does not hold.
            NotModifiedError: a not-match condition of a read does not hold.
        """
        if self.generation_match not in {None, generation}:
            raise PreconditionFailedError(
                f"The object's generation is {generation}, not {self.generation_match}.",
                parameter="generation",
            )
        if self.metageneration_match not in {None, metageneration}:
            raise PreconditionFailedError(
                f"The metageneration is {metageneration}, not {self.metageneration_match}.",
                parameter="metageneration",
            )
        unchanged = self.generation_not_match == generation or (
            generation != 0 and self.metageneration_not_match == metageneration
        )
        if unchanged and reading:
            raise NotModifiedError
        if unchanged:
            raise PreconditionFailedError(
                f"The object is still generation {generation}, metageneration {metageneration}."
            )
