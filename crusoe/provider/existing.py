"""Which objects of a kind exist, by name, and which of them this run's resources are.

Listing once per kind and run is enough to see what was there before; whatever the list says is confirmed by a GET
before it is believed, and after a lost answer the list is read again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import cast

from crusoe.client import Client, NotFound
from crusoe.client.clock import Clock

JsonObject = dict[str, object]


class Existing:
    """The objects of one project by kind and name; safe to use from many threads."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._ids: dict[str, dict[str, list[str]]] = {}
        self._read_at: dict[str, float] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._owners: dict[str, str] = {}
        self._adopted: set[str] = set()
        self._lock = threading.Lock()

    def find(self, collection: str, name: str, *, since: float | None = None) -> list[JsonObject]:
        """Return the objects of that name as they are now; the list has to be from `since` (monotonic) or later."""
        with self._locks[collection]:
            if collection not in self._ids or (since is not None and self._read_at[collection] <= since):
                self._ids[collection] = self._read(collection)
            ids = list(self._ids[collection].get(name, ()))
        found: list[JsonObject] = []
        for object_id in ids:
            try:
                fields = self._client.get(f"{collection}/{object_id}")
            except NotFound:
                self.forget(collection, object_id)
                continue
            if fields.get("name") == name:
                found.append(fields)
        return found

    def contains(self, collection: str, object_id: str) -> bool:
        """Say whether the list, read anew, still shows an object."""
        with self._locks[collection]:
            self._ids[collection] = self._read(collection)
            return any(object_id in ids for ids in self._ids[collection].values())

    def remember(self, collection: str, name: str, object_id: str) -> None:
        """Note an object made by this run."""
        with self._locks[collection]:
            if collection in self._ids:
                ids = self._ids[collection].setdefault(name, [])
                if object_id not in ids:
                    ids.append(object_id)

    def forget(self, collection: str, object_id: str) -> None:
        """Note that an object is gone."""
        with self._locks[collection]:
            for ids in self._ids.get(collection, {}).values():
                if object_id in ids:
                    ids.remove(object_id)

    def claim(self, object_id: str, urn: str) -> None:
        """Note that a resource of the program stands for this object."""
        with self._lock:
            self._owners[object_id] = urn

    def note_adopted(self, object_id: str) -> None:
        """Note that this run adopted an object that was there before."""
        with self._lock:
            self._adopted.add(object_id)

    def adopted(self, object_id: str) -> bool:
        """Say whether this run adopted the object."""
        with self._lock:
            return object_id in self._adopted

    def owner(self, object_id: str) -> str | None:
        """Return the resource that stands for the object, as far as this run has seen it."""
        with self._lock:
            return self._owners.get(object_id)

    def _read(self, collection: str) -> dict[str, list[str]]:
        ids: dict[str, list[str]] = {}
        # What is made while the list is on its way may be missing in it, so its age counts from here.
        self._read_at[collection] = self._clock.monotonic()
        for item in self._client.list(collection):
            name, object_id = item.get("name"), item.get("id")
            if isinstance(name, str) and isinstance(object_id, str) and object_id:
                ids.setdefault(name, []).append(object_id)
        return ids


def text(fields: JsonObject, name: str) -> str | None:
    """Return a text field that is not empty."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def texts(fields: JsonObject, name: str) -> list[str]:
    """Return the text items of a list field."""
    value = fields.get(name)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
