"""Buckets and their notification configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infra.local.storage.protocol.cors import checked_rules
from infra.local.storage.protocol.errors import (
    BucketNotFoundError,
    ConflictError,
    NotFoundError,
    NotOfferedError,
    PreconditionFailedError,
)
from infra.local.storage.protocol.names import checked_bucket_name
from infra.local.storage.protocol.resources import (
    Bucket,
    Json,
    NotificationConfig,
    microseconds,
)
from infra.local.storage.state.notifications import parsed_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from infra.local.storage.protocol.preconditions import Preconditions
    from infra.local.storage.state.catalogue import Catalogue

# They change what objects are and how they are read; storing without obeying them would mislead.
_REFUSED_FIELDS = (
    ("billing", "requesterPays"),
    ("encryption", "defaultKmsKeyName"),
    ("hierarchicalNamespace", "enabled"),
    ("retentionPolicy", "retentionPeriod"),
    ("versioning", "enabled"),
)
_READ_ONLY_FIELDS = frozenset(
    {
        "etag",
        "generation",
        "id",
        "kind",
        "metageneration",
        "name",
        "projectNumber",
        "selfLink",
        "timeCreated",
        "updated",
    }
)


class Buckets:
    """The buckets, and everything that can be done with them."""

    def __init__(self, catalogue: Catalogue, now: Callable[[], datetime]) -> None:
        self._catalogue = catalogue
        self._now = now

    def get(self, name: str) -> Bucket:
        """The bucket of this name.

        Raises:
            BucketNotFoundError: there is none.
        """
        bucket = self._catalogue.find_bucket(name)
        if bucket is None:
            raise BucketNotFoundError(f"No such bucket: {name}")
        return bucket

    def create(self, project: str, body: Json) -> Bucket:
        """Make a bucket from a resource.

        Raises:
            InvalidArgumentError: the name or a field is not acceptable.
            ConflictError: the name is taken.
        """
        name = checked_bucket_name(body.get("name"))
        if self._catalogue.find_bucket(name) is not None:
            raise ConflictError(f"The bucket {name} exists already.")
        now = microseconds(self._now())
        bucket = Bucket(name, project, 1, now, now, _checked_fields(body))
        self._catalogue.put_bucket(bucket)
        return bucket

    def list_page(
        self, project: str, prefix: str, after: str, limit: int
    ) -> tuple[list[Bucket], bool]:
        """A project's buckets behind the name `after`, and whether there are more."""
        found = self._catalogue.list_buckets(project, prefix, after, limit + 1)
        return found[:limit], len(found) > limit

    def delete(self, name: str, conditions: Preconditions) -> None:
        """Remove an empty bucket.

        Raises:
            BucketNotFoundError: there is none.
            ConflictError: it has objects.
            PreconditionFailedError: its metageneration is another one.
        """
        with self._catalogue.transaction():
            _check_metageneration(self.get(name), conditions)
            if self._catalogue.list_objects(name, "", 1):
                raise ConflictError(f"The bucket {name} is not empty.")
            self._catalogue.delete_bucket(name)

    def add_notification(self, name: str, body: Json) -> NotificationConfig:
        """Attach a notification configuration.

        Raises:
            BucketNotFoundError: there is no such bucket.
            InvalidArgumentError: the configuration is malformed.
        """
        self.get(name)
        config = parsed_config(name, body)
        return replace(config, config_id=self._catalogue.add_config(config))

    def list_notifications(self, name: str) -> list[NotificationConfig]:
        """A bucket's notification configurations.

        Raises:
            BucketNotFoundError: there is no such bucket.
        """
        self.get(name)
        return self._catalogue.list_configs(name)

    def get_notification(self, name: str, config_id: str) -> NotificationConfig:
        """One of a bucket's notification configurations.

        Raises:
            NotFoundError: there is none of this id.
        """
        for config in self.list_notifications(name):
            if str(config.config_id) == config_id:
                return config
        raise NotFoundError(f"The bucket {name} has no notification {config_id}.")

    def delete_notification(self, name: str, config_id: str) -> None:
        """Detach a notification configuration.

        Raises:
            NotFoundError: there is none of this id.
        """
        config = self.get_notification(name, config_id)
        self._catalogue.delete_config(name, config.config_id)


def _check_metageneration(bucket: Bucket, conditions: Preconditions) -> None:
    if conditions.metageneration_match not in {None, bucket.metageneration}:
        raise PreconditionFailedError(
            f"The bucket's metageneration is {bucket.metageneration}, "
            f"not {conditions.metageneration_match}."
        )
    if conditions.metageneration_not_match == bucket.metageneration:
        raise PreconditionFailedError(
            f"The bucket's metageneration is still {bucket.metageneration}."
        )


def _checked_fields(body: Json) -> Json:
    for outer, inner in _REFUSED_FIELDS:
        value = body.get(outer)
        if isinstance(value, dict) and value.get(inner):
            raise NotOfferedError(f"The local cloud does not offer {outer}.{inner}.")
    if body.get("cors") is not None:
        checked_rules(body["cors"])
    return {
        name: value
        for name, value in body.items()
        if name not in _READ_ONLY_FIELDS and value is not None
    }
