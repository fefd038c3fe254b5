"""What the server knows, in one SQLite file: buckets, objects, sessions, unsent notifications.

An object and the notifications of its change are written in one transaction, so that neither can
exist without the other, whenever the server is killed. All calls are made by the event loop's
thread and take well under a millisecond; a check and a write in one `transaction` are therefore
one step to every other request.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from infra.local.storage.protocol.resources import Bucket, Json, NotificationConfig, StoredObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS buckets (
    name TEXT PRIMARY KEY, project TEXT NOT NULL, metageneration INTEGER NOT NULL,
    created INTEGER NOT NULL, updated INTEGER NOT NULL, fields TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    bucket TEXT NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL, content_id TEXT NOT NULL, size INTEGER NOT NULL,
    crc32c TEXT NOT NULL, md5 TEXT,
    created INTEGER NOT NULL, updated INTEGER NOT NULL, fields TEXT NOT NULL,
    PRIMARY KEY (bucket, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notification_configs (
    config_id INTEGER PRIMARY KEY AUTOINCREMENT, bucket TEXT NOT NULL, topic TEXT NOT NULL,
    event_types TEXT NOT NULL, object_name_prefix TEXT NOT NULL, payload_format TEXT NOT NULL,
    custom_attributes TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS outbox (
    message_id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, data BLOB NOT NULL,
    attributes TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS upload_sessions (
    session_id TEXT PRIMARY KEY, bucket TEXT NOT NULL, content_id TEXT NOT NULL,
    created INTEGER NOT NULL, plan TEXT NOT NULL, result TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


class OutboxMessage(NamedTuple):
    """A notification that has not been published yet."""

    message_id: int
    topic: str
    data: bytes
    attributes: dict[str, str]


class UploadSession(NamedTuple):
    """A resumable upload: what it is to become, and the object resource once it has."""

    session_id: str
    bucket: str
    content_id: str
    created: int
    plan: Json
    result: Json | None


class CatalogueInUseError(Exception):
    """Another server works on the same folder."""


class Catalogue:
    """Typed access to the SQLite file."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            CatalogueInUseError: another server has it open.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        self._connection.row_factory = sqlite3.Row
        try:
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            self._connection.close()
            if "locked" not in str(error):
                raise
            raise CatalogueInUseError(
                f"Another storage server uses {path.parent}: stop it or choose another folder."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of the block, or none if it raises."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def next_generation(self, now: int) -> int:
        """A generation later than every one before: `now` in microseconds, or one more."""
        row = self._connection.execute(
            "INSERT INTO counters VALUES ('generation', ?)"
            " ON CONFLICT (name) DO UPDATE SET value = max(value + 1, excluded.value)"
            " RETURNING value",
            (now,),
        ).fetchone()
        return int(row["value"])

    # Buckets

    def find_bucket(self, name: str) -> Bucket | None:
        """The bucket of this name."""
        row = self._connection.execute("SELECT * FROM buckets WHERE name = ?", (name,)).fetchone()
        return None if row is None else Bucket(**_values(row, "fields"))

    def list_buckets(self, project: str, prefix: str, after: str, limit: int) -> list[Bucket]:
        """A project's buckets behind the name `after`, in the order of their names."""
        rows = self._connection.execute(
            "SELECT * FROM buckets WHERE project = ? AND name > ? AND substr(name, 1, ?) = ?"
            " ORDER BY name LIMIT ?",
            (project, after, len(prefix), prefix, limit),
        )
        return [Bucket(**_values(row, "fields")) for row in rows]

    def put_bucket(self, bucket: Bucket) -> None:
        """Insert or replace a bucket."""
        self._connection.execute(
            "INSERT OR REPLACE INTO buckets"
            " VALUES (:name, :project, :metageneration, :created, :updated, :fields)",
            _columns(asdict(bucket), "fields"),
        )

    def delete_bucket(self, name: str) -> None:
        """Remove a bucket with its notification configurations."""
        self._connection.execute("DELETE FROM notification_configs WHERE bucket = ?", (name,))
        self._connection.execute("DELETE FROM buckets WHERE name = ?", (name,))

    # Objects

    def find_object(self, bucket: str, name: str) -> StoredObject | None:
        """The live object of this name."""
        row = self._connection.execute(
            "SELECT * FROM objects WHERE bucket = ? AND name = ?", (bucket, name)
        ).fetchone()
        return None if row is None else _object(row)

    def list_objects(self, bucket: str, first: str, limit: int) -> list[StoredObject]:
        """Objects from the name `first` on, in the order of their names' UTF-8."""
        rows = self._connection.execute(
            "SELECT * FROM objects WHERE bucket = ? AND name >= ? ORDER BY name LIMIT ?",
            (bucket, first, limit),
        )
        return [_object(row) for row in rows]

    def put_object(self, stored: StoredObject) -> None:
        """Insert or replace an object."""
        self._connection.execute(
            "INSERT OR REPLACE INTO objects (bucket, name, generation, metageneration, content_id,"
            " size, crc32c, md5, created, updated, fields)"
            " VALUES (:bucket, :name, :generation, :metageneration, :content_id,"
            " :size, :crc32c, :md5, :created, :updated, :fields)",
            _columns(asdict(stored), "fields"),
        )

    def delete_object(self, bucket: str, name: str) -> None:
        """Remove an object."""
        self._connection.execute(
            "DELETE FROM objects WHERE bucket = ? AND name = ?", (bucket, name)
        )

    def content_ids(self) -> list[str]:
        """The contents that objects and open upload sessions refer to."""
        rows = self._connection.execute(
            "SELECT content_id FROM objects"
            " UNION SELECT content_id FROM upload_sessions WHERE result IS NULL"
        )
        return [str(row["content_id"]) for row in rows]

    # Notification configurations

    def list_configs(self, bucket: str) -> list[NotificationConfig]:
        """A bucket's notification configurations."""
        rows = self._connection.execute(
            "SELECT * FROM notification_configs WHERE bucket = ? ORDER BY config_id", (bucket,)
        )
        return [_config(row) for row in rows]

    def add_config(self, config: NotificationConfig) -> int:
        """Store a configuration under a new id, which is returned."""
        cursor = self._connection.execute(
            "INSERT INTO notification_configs VALUES (NULL, :bucket, :topic, :event_types,"
            " :object_name_prefix, :payload_format, :custom_attributes)",
            _columns(asdict(config), "event_types", "custom_attributes"),
        )
        return int(cursor.lastrowid or 0)

    def delete_config(self, bucket: str, config_id: int) -> bool:
        """Remove a configuration; whether there was one."""
        cursor = self._connection.execute(
            "DELETE FROM notification_configs WHERE bucket = ? AND config_id = ?",
            (bucket, config_id),
        )
        return cursor.rowcount > 0

    # Unsent notifications

    def add_message(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        """Keep a notification until it is published."""
        self._connection.execute(
            "INSERT INTO outbox VALUES (NULL, ?, ?, ?)", (topic, data, json.dumps(dict(attributes)))
        )

    def messages_after(self, message_id: int) -> list[OutboxMessage]:
        """The unsent notifications behind this id, oldest first."""
        rows = self._connection.execute(
            "SELECT * FROM outbox WHERE message_id > ? ORDER BY message_id", (message_id,)
        )
        return [OutboxMessage(**_values(row, "attributes")) for row in rows]

    def delete_message(self, message_id: int) -> None:
        """Forget a notification that was published."""
        self._connection.execute("DELETE FROM outbox WHERE message_id = ?", (message_id,))

    # Resumable uploads

    def put_session(self, session: UploadSession) -> None:
        """Insert or replace an upload session."""
        self._connection.execute(
            "INSERT OR REPLACE INTO upload_sessions"
            " VALUES (:session_id, :bucket, :content_id, :created, :plan, :result)",
            _columns(session._asdict(), "plan", "result"),
        )

    def find_session(self, session_id: str) -> UploadSession | None:
        """The upload session of this id."""
        row = self._connection.execute(
            "SELECT * FROM upload_sessions WHERE session_id = ?", (session_id,)
        ).fetchone()
        return None if row is None else UploadSession(**_values(row, "plan", "result"))

    def delete_session(self, session_id: str) -> None:
        """Forget an upload session."""
        self._connection.execute("DELETE FROM upload_sessions WHERE session_id = ?", (session_id,))

    def delete_sessions_before(self, moment: int) -> None:
        """Forget the upload sessions that were opened before `moment`."""
        self._connection.execute("DELETE FROM upload_sessions WHERE created < ?", (moment,))


def _columns(values: dict[str, Any], *as_json: str) -> dict[str, Any]:
    """Return values as they are stored: some of them, but for None, as JSON."""
    written = {name: json.dumps(values[name]) for name in as_json if values[name] is not None}
    return values | written


def _values(row: sqlite3.Row, *as_json: str) -> dict[str, Any]:
    """Return the values of a row by their columns; the inverse of `_columns`."""
    values = dict(zip(row.keys(), row, strict=True))
    return values | {name: json.loads(values[name]) for name in as_json if values[name] is not None}


def _object(row: sqlite3.Row) -> StoredObject:
    # A folder of an earlier version has a column more.
    known = {field.name for field in fields(StoredObject)}
    values = _values(row, "fields")
    return StoredObject(**{name: values[name] for name in known})


def _config(row: sqlite3.Row) -> NotificationConfig:
    values = _values(row, "event_types", "custom_attributes")
    return NotificationConfig(**values | {"event_types": tuple(values["event_types"])})
