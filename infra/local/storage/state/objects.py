"""Objects: what one can do with them once their content is on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from infra.local.storage.protocol.errors import (
    BucketNotFoundError,
    ObjectNotFoundError,
)
from infra.local.storage.protocol.names import checked_object_name
from infra.local.storage.protocol.preconditions import Preconditions
from infra.local.storage.protocol.resources import (
    Json,
    StoredObject,
    microseconds,
)
from infra.local.storage.state.notifications import DELETE, FINALIZE, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from infra.local.storage.protocol.digests import Digests
    from infra.local.storage.state.catalogue import Catalogue
    from infra.local.storage.state.contents import Contents
    from infra.local.storage.state.notifications import Notifications

_LIST_STEP = 500
_NO_CONDITIONS = Preconditions()
# Leaps over the names that share a common prefix; no name worth listing begins with it.
_LAST = "\U0010ffff"


class Content(NamedTuple):
    """A finished content on disk: size in bytes, checksums in base64."""

    content_id: str
    size: int
    crc32c: str
    md5: str

    @classmethod
    def uploaded(cls, content_id: str, digests: Digests) -> Content:
        """A content that arrived in one piece."""
        return cls(content_id, digests.size, digests.crc32c, digests.md5)


@dataclass(frozen=True, slots=True)
class Draft:
    """A wanted object: where, its writable fields, and the conditions on what is there."""

    bucket: str
    name: str
    fields: Json
    conditions: Preconditions


@dataclass(frozen=True, slots=True)
class Listing:
    """Which objects to list; `start` is included, `end` is not, both may be empty."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    limit: int = 1000


class Page(NamedTuple):
    """A part of a listing; `next_start` is where the next one begins, None where there is none."""

    items: list[StoredObject]
    prefixes: list[str]
    next_start: str | None


class Objects:
    """The objects of all buckets."""

    def __init__(
        self,
        catalogue: Catalogue,
        contents: Contents,
        notifications: Notifications,
        now: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._contents = contents
        self._notifications = notifications
        self._now = now

    def get(
        self,
        bucket: str,
        name: str,
        generation: int | None = None,
        conditions: Preconditions = _NO_CONDITIONS,
        *,
        reading: bool = True,
    ) -> StoredObject:
        """The live object, of this generation where one is given.

        Raises:
            BucketNotFoundError: there is no such bucket.
            ObjectNotFoundError: there is no such object, or it has another generation.
            PreconditionFailedError: a condition does not hold.
            NotModifiedError: a not-match condition of a read does not hold.
        """
        stored = self._live(bucket, name)
        if stored is None or generation not in {None, stored.generation}:
            wanted = f"{bucket}/{name}" + (f"#{generation}" if generation else "")
            raise ObjectNotFoundError(f"No such object: {wanted}")
        conditions.check(stored.generation, stored.metageneration, reading=reading)
        return stored

    def check(self, draft: Draft) -> None:
        """Refuse early what `commit` would refuse.

        Raises:
            InvalidArgumentError: the name is not allowed.
            BucketNotFoundError: there is no such bucket.
            PreconditionFailedError: a condition does not hold.
        """
        checked_object_name(draft.name)
        live = self._live(draft.bucket, draft.name)
        draft.conditions.check(live.generation if live else 0, live.metageneration if live else 0)

    def commit(
        self,
        draft: Draft,
        content: Content,
        base_url: str,
        also: Callable[[StoredObject], None] = lambda _: None,
    ) -> StoredObject:
        """Make a finished content the live object, in one step with its notifications.

        Args:
            draft: what it is to be.
            content: its content, which now belongs to the object.
            base_url: begins the links in notifications.
            also: done in the same transaction.

        Raises:
            as `check`; the content then still belongs to the caller.
        """
        now = microseconds(self._now())
        with self._catalogue.transaction():
            self.check(draft)
            replaced = self._catalogue.find_object(draft.bucket, draft.name)
            generation = self._catalogue.next_generation(now)
            stored = StoredObject(
                bucket=draft.bucket,
                name=draft.name,
                generation=generation,
                metageneration=1,
                content_id=content.content_id,
                size=content.size,
                crc32c=content.crc32c,
                md5=content.md5,
                created=now,
                updated=now,
                fields=draft.fields,
            )
            self._catalogue.put_object(stored)
            for event in _replacement_events(stored, replaced, now):
                self._notifications.record(event, base_url)
            also(stored)
        if replaced is not None:
            self._contents.delete(replaced.content_id)
        return stored

    def delete(
        self,
        bucket: str,
        name: str,
        generation: int | None,
        conditions: Preconditions,
        base_url: str,
    ) -> None:
        """Remove the live object.

        Raises:
            as `get`.
        """
        with self._catalogue.transaction():
            live = self.get(bucket, name, generation, conditions, reading=False)
            self._catalogue.delete_object(bucket, name)
            event = Event(DELETE, live, microseconds(self._now()))
            self._notifications.record(event, base_url)
        self._contents.delete(live.content_id)

    def list_page(self, bucket: str, listing: Listing) -> Page:
        """Objects and common prefixes in the order of their names' UTF-8.

        Raises:
            BucketNotFoundError: there is no such bucket.
        """
        self._require_bucket(bucket)
        items: list[StoredObject] = []
        prefixes: list[str] = []
        for entry, start in self._entries(bucket, listing):
            if len(items) + len(prefixes) == listing.limit:
                return Page(items, prefixes, start)
            if isinstance(entry, str):
                prefixes.append(entry)
            else:
                items.append(entry)
        return Page(items, prefixes, None)

    def _entries(self, bucket: str, listing: Listing) -> Iterator[tuple[StoredObject | str, str]]:
        start, previous = max(listing.prefix, listing.start), None
        while batch := self._catalogue.list_objects(bucket, start, _LIST_STEP):
            for stored in batch:
                if not _belongs(stored.name, listing):
                    return
                common = _common_prefix(stored.name, listing)
                start = stored.name + "\0"
                if common is None:
                    yield stored, stored.name
                elif common != previous:
                    previous = common
                    yield common, common
            if previous is not None and start.startswith(previous):
                start = previous + _LAST

    def _live(self, bucket: str, name: str) -> StoredObject | None:
        self._require_bucket(bucket)
        return self._catalogue.find_object(bucket, name)

    def _require_bucket(self, bucket: str) -> None:
        if self._catalogue.find_bucket(bucket) is None:
            raise BucketNotFoundError(f"No such bucket: {bucket}")


def _replacement_events(
    stored: StoredObject, replaced: StoredObject | None, now: int
) -> list[Event]:
    if replaced is None:
        return [Event(FINALIZE, stored, now)]
    return [
        Event(FINALIZE, stored, now, overwrote_generation=replaced.generation),
        Event(DELETE, replaced, now, overwritten_by_generation=stored.generation),
    ]


def _belongs(name: str, listing: Listing) -> bool:
    return name.startswith(listing.prefix) and not (listing.end and name >= listing.end)


def _common_prefix(name: str, listing: Listing) -> str | None:
    if not listing.delimiter:
        return None
    position = name.find(listing.delimiter, len(listing.prefix))
    return None if position < 0 else name[: position + len(listing.delimiter)]
