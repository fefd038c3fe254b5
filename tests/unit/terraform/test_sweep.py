from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self, cast

from shared.google.voices import FirestoreVoices
from shared.voices.voice import Status

if TYPE_CHECKING:
    from google.cloud.firestore_v1.base_query import FieldFilter

    from shared.google.firestore import RenewableClient
    from tests.unit.terraform.reading import TerraformModule


SAME = {"==", "in"}
"""What asks for values and not for a range: these fields come first in an index."""


class FirestoreClient:
    """Stands for Firestore's client, its collection and its query; notes what is asked for."""

    def __init__(self) -> None:
        self.name = ""
        self.filters: list[tuple[str, str]] = []
        self.order: list[tuple[str, str]] = []

    def collection_group(self, name: str) -> Self:
        self.name = name
        return self

    # The names of the arguments are the library's.
    def where(self, *, filter: FieldFilter) -> Self:  # noqa: A002
        self.filters.append((filter.field_path, filter.op_string))
        return self

    def order_by(self, field: str, direction: str = "ASCENDING") -> Self:
        self.order.append((field, direction))
        return self

    def limit(self, _count: int) -> Self:
        return self

    async def get(self, **_terms: object) -> list[object]:
        return []


async def test_the_index_is_the_one_that_the_sweeps_query_needs(
    terraform: TerraformModule,
) -> None:
    client = FirestoreClient()
    voices = FirestoreVoices(cast("RenewableClient", client))
    await voices.find_unchanged(Status.QUEUED, since=datetime.now(UTC), limit=10)

    index = terraform.resources["google_firestore_index", "sweep"]
    fields = [(field["field_path"], field["order"]) for field in index["fields"]]
    equal = [(field, "ASCENDING") for field, operator in client.filters if operator in SAME]

    # Equalities come first, then the field of range and order: what Firestore asks of an index.
    assert fields == equal + client.order
    assert {field for field, operator in client.filters if operator not in SAME} == {"updated_at"}
    assert (index["collection"], index["query_scope"]) == (client.name, "COLLECTION_GROUP")


def test_a_message_counts_as_lost_only_when_no_delivery_is_left(
    terraform: TerraformModule,
) -> None:
    formula = terraform.locals["patience"]
    found = re.fullmatch(
        r"max\((\d+), (\d+) \* \(var\.dead_letter\.delivery_attempts - (\d+)\)\)", formula
    )
    assert found, formula
    least, gap, quick = map(int, found.groups())
    first, longest = (
        int(terraform.locals[name].rstrip("s")) for name in ("minimum_backoff", "maximum_backoff")
    )

    for attempts in range(5, 101):
        backoffs = sum(min(longest, first * 2**tried) for tried in range(attempts - 1))
        assert backoffs <= max(least, gap * (attempts - quick)), attempts
