"""The request log: every request with its answer's status, for people and for tests that judge by it.

Neither the Authorization header nor any answer is kept. Values of body fields whose names say that they are secret
are replaced.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from typing import Any, cast

from localcloud.store import Store, Value

KEPT = 20_000
_SECRET = re.compile(r"secret|password|token|private_?key|client_key|credential", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """One request. `at` is in seconds of the cloud's clock; `status` is None when no answer was sent."""

    id: int
    at: float
    method: str
    path: str
    query: str
    body: Any
    status: int | None
    key_id: str | None
    user_agent: str | None
    fault: str | None
    milliseconds: float


class RequestLog:
    """Writes and reads the log; keeps the newest `KEPT` requests."""

    def __init__(self, store: Store) -> None:
        """Use the state file's table."""
        self._store = store

    def add(
        self,
        *,
        at: float,
        method: str,
        path: str,
        query: str,
        body: bytes,
        status: int | None,
        key_id: str | None,
        user_agent: str | None,
        fault: str | None,
        milliseconds: float,
    ) -> None:
        """Write one request."""
        cursor = self._store.connection.execute(
            "INSERT INTO requests (at, method, path, query, body, status, key_id, user_agent, fault, milliseconds)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (at, method, path, query, _body_text(body), status, key_id, user_agent, fault, milliseconds),
        )
        if (newest := cursor.lastrowid or 0) % 1000 == 0:
            self._store.connection.execute("DELETE FROM requests WHERE id <= ?", (newest - KEPT,))

    def since(self, identifier: int = 0, limit: int = 1000) -> list[Request]:
        """Requests after the one with this id, oldest first."""
        return self._read("SELECT * FROM requests WHERE id > ? ORDER BY id LIMIT ?", identifier, limit)

    def last(self, limit: int) -> list[Request]:
        """The newest requests, oldest first."""
        return self._read("SELECT * FROM (SELECT * FROM requests ORDER BY id DESC LIMIT ?) ORDER BY id", limit)

    def clear(self) -> None:
        """Forget all requests."""
        self._store.connection.execute("DELETE FROM requests")

    def _read(self, query: str, *values: int) -> list[Request]:
        return [_request(row) for row in self._store.connection.execute(query, values)]


def redact(document: Value) -> Value:
    """A JSON document with the values of secret-looking fields replaced."""
    if isinstance(document, dict):
        pairs = cast(dict[str, Value], document).items()
        return {key: "[secret]" if _SECRET.search(key) and value else redact(value) for key, value in pairs}
    if isinstance(document, list):
        return [redact(value) for value in cast(list[Value], document)]
    return document


def _request(row: sqlite3.Row) -> Request:
    columns: dict[str, Any] = dict(row)
    columns["body"] = None if row["body"] is None else json.loads(row["body"])
    return Request(**columns)


def _body_text(body: bytes) -> str | None:
    if not body:
        return None
    try:
        return json.dumps(redact(json.loads(body)), separators=(",", ":"))
    except ValueError:
        return json.dumps(f"[{len(body)} bytes that are not JSON]")
