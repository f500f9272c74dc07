"""All state of the local cloud, in one SQLite file.

Everything the API shows is an `Object`: a row with a kind, an id, a project, a name, sometimes a parent, and two JSON
documents, `body` (what the API answers) and `hidden` (what it never does). Names are unique per kind and project; the
file itself holds that.

The connection belongs to the event loop's thread, so a `transaction` is never interleaved with another as long as
nothing is awaited inside it. The journal is a write-ahead log with `synchronous=NORMAL`: what was committed survives a
`kill -9`, since it then lies in the operating system's cache. A power cut may take the last commits back, as a whole
and in order, which for a machine's local cloud is worth the ten times shorter commit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Value = Any  # whatever JSON can hold

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, id TEXT NOT NULL, project_id TEXT NOT NULL, name TEXT NOT NULL, parent_id TEXT,
    body TEXT NOT NULL, hidden TEXT NOT NULL,
    UNIQUE (kind, id), UNIQUE (kind, project_id, name)
);
CREATE INDEX IF NOT EXISTS objects_by_parent ON objects (kind, parent_id);
CREATE INDEX IF NOT EXISTS vms_by_type ON objects (json_extract(body, '$.type'), json_extract(body, '$.location'))
    WHERE kind = 'vm';
CREATE TABLE IF NOT EXISTS addresses (subnet_id TEXT, address INTEGER, vm_id TEXT, PRIMARY KEY (subnet_id, address));
CREATE INDEX IF NOT EXISTS addresses_by_vm ON addresses (vm_id);
CREATE TABLE IF NOT EXISTS operations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE, family TEXT NOT NULL, work TEXT NOT NULL, project_id TEXT NOT NULL,
    resource_id TEXT NOT NULL, state TEXT NOT NULL, payload TEXT NOT NULL, fault TEXT NOT NULL, result TEXT,
    metadata TEXT NOT NULL, due_at REAL NOT NULL, started_at REAL NOT NULL, completed_at REAL
);
CREATE INDEX IF NOT EXISTS operations_by_resource ON operations (resource_id);
CREATE INDEX IF NOT EXISTS operations_open ON operations (state) WHERE state = 'IN_PROGRESS';
CREATE TABLE IF NOT EXISTS faults (
    id INTEGER PRIMARY KEY AUTOINCREMENT, method TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    skip INTEGER NOT NULL, remaining INTEGER, fired INTEGER NOT NULL DEFAULT 0, options TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    query TEXT NOT NULL, body TEXT, status INTEGER, key_id TEXT, user_agent TEXT, fault TEXT, milliseconds REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass
class Object:
    """One thing of the cloud. `seq` orders by creation and is given by the store."""

    kind: str
    id: str
    project_id: str
    name: str
    body: Json
    parent_id: str | None = None
    hidden: Json = field(default_factory=dict[str, Any])
    seq: int = 0


class NameTakenError(Exception):
    """Another object of the kind has the name in this project."""


class Store:
    """The SQLite file, opened by the one process that holds the state folder."""

    def __init__(self, path: Path | str) -> None:
        """Open or create the file; `:memory:` keeps nothing."""
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
        self.connection.executescript(_SCHEMA)
        self._depth = 0

    def close(self) -> None:
        """Fold the log into the file and close it."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Commit everything inside at its end, or nothing if it raises. Nested ones join the outer."""
        if self._depth == 0:
            self.connection.execute("BEGIN IMMEDIATE")
        self._depth += 1
        try:
            yield
        except BaseException:
            self._depth -= 1
            if self._depth == 0:
                self.connection.execute("ROLLBACK")
            raise
        self._depth -= 1
        if self._depth == 0:
            self.connection.execute("COMMIT")

    def insert(self, item: Object) -> Object:
        """Add an object; raises NameTakenError."""
        try:
            cursor = self.connection.execute(
                "INSERT INTO objects (kind, id, project_id, name, parent_id, body, hidden)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (item.kind, item.id, item.project_id, item.name, item.parent_id, _dump(item.body), _dump(item.hidden)),
            )
        except sqlite3.IntegrityError as error:
            raise NameTakenError(item.name) from error
        item.seq = cursor.lastrowid or 0
        return item

    def save(self, item: Object) -> None:
        """Write an object's name, body and hidden part back; raises NameTakenError."""
        try:
            self.connection.execute(
                "UPDATE objects SET name = ?, body = ?, hidden = ? WHERE kind = ? AND id = ?",
                (item.name, _dump(item.body), _dump(item.hidden), item.kind, item.id),
            )
        except sqlite3.IntegrityError as error:
            raise NameTakenError(item.name) from error

    def remove(self, kind: str, identifier: str) -> None:
        """Delete an object if it is there."""
        self.connection.execute("DELETE FROM objects WHERE kind = ? AND id = ?", (kind, identifier))

    def get(self, kind: str, identifier: str) -> Object | None:
        """One object of any project by id."""
        return self._one("kind = ? AND id = ?", kind, identifier)

    def named(self, kind: str, project_id: str, name: str) -> Object | None:
        """One object by name."""
        return self._one("kind = ? AND project_id = ? AND name = ?", kind, project_id, name)

    def all(self, kind: str, project_id: str | None = None, parent_id: str | None = None) -> list[Object]:
        """Objects of a kind in order of creation, of one project or parent if given."""
        where, values = ["kind = ?"], [kind]
        for column, value in (("project_id", project_id), ("parent_id", parent_id)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        return self._many(" AND ".join(where), *values)

    def holding(self, kind: str, key: str, value: str) -> Object | None:
        """The first object of a kind whose body has `value` under `key`."""
        return self._one("kind = ? AND json_extract(body, ?) = ?", kind, f"$.{key}", value)

    def exists(self, identifier: str, project_id: str) -> bool:
        """Whether any kind of object has this id in the project."""
        row = self.connection.execute(
            "SELECT 1 FROM objects WHERE id = ? AND project_id = ? LIMIT 1", (identifier, project_id)
        ).fetchone()
        return row is not None

    def count(self, kind: str, parent_id: str) -> int:
        """How many children of a kind a parent has."""
        row = self.connection.execute(
            "SELECT count(*) FROM objects WHERE kind = ? AND parent_id = ?", (kind, parent_id)
        ).fetchone()
        return int(row[0])

    def setting(self, key: str, default: Value = None) -> Value:
        """A JSON value kept under a key."""
        row = self.connection.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return default if row is None else json.loads(row[0])

    def set_setting(self, key: str, value: Value) -> None:
        """Keep a JSON value under a key."""
        self.connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))

    def settings(self, prefix: str) -> dict[str, Any]:
        """All kept values whose key begins with a prefix, by the rest of the key."""
        rows = self.connection.execute(
            "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY key", (len(prefix), prefix)
        )
        return {row[0][len(prefix) :]: json.loads(row[1]) for row in rows}

    def _one(self, where: str, *values: Value) -> Object | None:
        found = self._many(f"{where} LIMIT 1", *values, order="")
        return found[0] if found else None

    def _many(self, where: str, *values: Value, order: str = " ORDER BY seq") -> list[Object]:
        # `where` is written in this module; values are always bound, so S608 doesn't apply.
        rows = self.connection.execute(f"SELECT * FROM objects WHERE {where}{order}", values)  # noqa: S608
        return [
            Object(
                kind=row["kind"],
                id=row["id"],
                project_id=row["project_id"],
                name=row["name"],
                parent_id=row["parent_id"],
                body=json.loads(row["body"]),
                hidden=json.loads(row["hidden"]),
                seq=row["seq"],
            )
            for row in rows
        ]


def _dump(document: Json) -> str:
    return json.dumps(document, separators=(",", ":"))
