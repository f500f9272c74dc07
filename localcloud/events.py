"""The cloud's journal: what happened to which object, in order, kept in the state file.

Every part of the local cloud records here what a person or another part may want to know later ("vm.running",
"vm.deleted", "cluster.running"). Parts that must act on such a thing subscribe; a subscriber is called on the event
loop after the record is written, and must not block.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.clock import Clock
from localcloud.store import Store


@dataclass(frozen=True)
class Event:
    """One record; `at` is in seconds of the cloud's clock."""

    id: int
    at: float
    kind: str
    subject: str
    detail: dict[str, Any]


class Journal:
    """Writes and reads events, and tells subscribers."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Use the state file's table."""
        self._store = store
        self._clock = clock
        self._subscribers: list[Callable[[Event], None]] = []

    def record(self, kind: str, subject: str, **detail: object) -> None:
        """Write one event about the object `subject`."""
        at = self._clock.now()
        cursor = self._store.connection.execute(
            "INSERT INTO events (at, kind, subject, detail) VALUES (?, ?, ?, ?)",
            (at, kind, subject, json.dumps(detail)),
        )
        event = Event(cursor.lastrowid or 0, at, kind, subject, detail)
        for subscriber in self._subscribers:
            subscriber(event)

    def subscribe(self, subscriber: Callable[[Event], None]) -> None:
        """Be told of every event from now on."""
        self._subscribers.append(subscriber)

    def since(self, identifier: int = 0, limit: int = 1000) -> list[Event]:
        """Events after the one with this id, oldest first."""
        rows = self._store.connection.execute(
            "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?", (identifier, limit)
        )
        return [_read(row) for row in rows]

    def newest(self, limit: int, kinds: Sequence[str]) -> list[Event]:
        """The newest events whose kind begins with one of `kinds`, oldest first."""
        begins = " OR ".join("substr(kind, 1, ?) = ?" for _ in kinds)
        values = [value for kind in kinds for value in (len(kind), kind)]
        rows = self._store.connection.execute(
            # Only the count of the beginnings is in the text, so S608 doesn't apply.
            f"SELECT * FROM events WHERE {begins} ORDER BY id DESC LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [_read(row) for row in rows][::-1]


def _read(row: sqlite3.Row) -> Event:
    return Event(row["id"], row["at"], row["kind"], row["subject"], json.loads(row["detail"]))
