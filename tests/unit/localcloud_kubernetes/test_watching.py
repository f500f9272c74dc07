"""What is read from memory when snapshots, events and one's own writes come in any order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.kubernetes.api_server import Snapshot
from localcloud.kubernetes.watching import Address, WatchingApi

Json = dict[str, Any]
PODS = "/api/v1/namespaces/slurm/pods"


def pod(name: str, revision: int, **labels: str) -> Json:
    metadata = {"name": name, "namespace": "slurm", "resourceVersion": str(revision), "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


class Api(WatchingApi):
    """A client whose API server is this test: it says what a list has and when the watch shows something."""

    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]  nothing is connected
        self._lock, self._collections, self._closed = threading.Lock(), {}, False
        self.stored, self.lists = Snapshot([], "1"), 0
        self.watches: list[queue.Queue[Json | None]] = []

    def snapshot(self, path: str, **query: str | int) -> Snapshot:
        del path, query
        self.lists += 1
        return self.stored

    def _events(self, collection: object) -> Iterator[Json]:
        del collection
        mine: queue.Queue[Json | None] = queue.Queue()
        self.watches.append(mine)
        while (event := mine.get()) is not None:
            yield event
            mine.task_done()
        mine.task_done()
        raise RuntimeError("the watch broke off")

    def show(self, kind: str, item: Json) -> None:
        """Have the watch show something, and wait until it has been taken in."""
        self.tell({"type": kind, "object": item})

    def tell(self, event: Json | None) -> None:
        self.watches[-1].put(event)
        self.watches[-1].join()

    def names(self, **query: str) -> dict[str, int]:
        return {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in self.list(PODS, **query)}


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    made.stored = Snapshot([pod("a", 3), pod("b", 4)], "5")
    assert made.names() == {"a": 3, "b": 4}
    while not made.watches:
        threading.Event().wait(0.01)
    yield made
    for watch in made.watches:
        watch.put(None)


def test_events_change_what_is_read_and_nobody_is_asked(api: Api) -> None:
    api.show("MODIFIED", pod("a", 6))
    api.show("DELETED", pod("b", 7))
    api.show("ADDED", pod("c", 8))
    assert api.names() == {"a": 6, "c": 8}
    assert api.get(f"{PODS}/b") is None
    assert (api.get(f"{PODS}/a") or {})["metadata"]["resourceVersion"] == "6"
    assert api.lists == 1


def test_what_one_wrote_oneself_is_read_before_the_watch_shows_it_and_older_events_do_not_undo_it(api: Api) -> None:
    api._wrote("PATCH", Address.of(f"{PODS}/a/status"), pod("a", 9))  # pyright: ignore[reportPrivateUsage]
    api._wrote("DELETE", Address.of(f"{PODS}/b"), {"kind": "Status"})  # pyright: ignore[reportPrivateUsage]
    assert api.names() == {"a": 9}
    api.show("MODIFIED", pod("a", 6))
    assert api.names() == {"a": 9}
    api.show("MODIFIED", pod("a", 10))
    assert api.names() == {"a": 10}


def test_a_list_that_is_older_than_the_watch_takes_nothing_back(api: Api) -> None:
    """A selection is asked for again where its watch has not shown one's own write; the answer may come late."""
    assert api.names(labelSelector="x=y") == {"a": 3, "b": 4}
    while len(api.watches) < 2:
        threading.Event().wait(0.01)
    api.show("MODIFIED", pod("a", 20))
    api._wrote("PATCH", Address.of(f"{PODS}/b"), pod("b", 30))  # pyright: ignore[reportPrivateUsage]
    api.stored = Snapshot([pod("a", 3), pod("b", 4)], "19")
    assert api.names(labelSelector="x=y") == {"a": 3, "b": 4}
    api.show("MODIFIED", pod("b", 30))
    assert api.names(labelSelector="x=y") == {"a": 20, "b": 30}


def test_after_a_watch_has_broken_off_the_server_is_asked_and_watched_again(api: Api) -> None:
    api.tell(None)
    api.stored = Snapshot([pod("a", 12)], "12")
    while api.lists < 2:
        api.names()
    assert api.names() == {"a": 12}
    while len(api.watches) < 2:
        threading.Event().wait(0.01)
    api.show("ADDED", pod("d", 13))
    assert api.names() == {"a": 12, "d": 13}


@pytest.mark.parametrize(
    ("path", "collection", "name", "part"),
    [
        ("/api/v1/nodes/n", "/api/v1/nodes", "n", ""),
        (f"{PODS}/p/status", PODS, "p", "status"),
        ("/api/v1/namespaces/slurm", "/api/v1/namespaces", "slurm", ""),
        ("/apis/apps/v1/deployments", "/apis/apps/v1/deployments", "", ""),
        ("/apis/g.io/v1/namespaces/a/things/t", "/apis/g.io/v1/namespaces/a/things", "t", ""),
    ],
)
def test_paths(path: str, collection: str, name: str, part: str) -> None:
    found = Address.of(path)
    assert (found.collection, found.name, found.part) == (collection, name, part)


def test_an_object_is_in_the_collection_of_its_namespace_and_in_that_of_all() -> None:
    one = Address.of(f"{PODS}/p")
    assert one.is_in(Address.of(PODS))
    assert one.is_in(Address.of("/api/v1/pods"))
    assert not one.is_in(Address.of("/api/v1/namespaces/other/pods"))
    assert not one.is_in(Address.of("/api/v1/namespaces/slurm/secrets"))


def test_the_revision_moves_with_what_the_watch_shows_and_is_none_where_the_server_has_to_be_asked(api: Api) -> None:
    assert api.revision(PODS) == 5
    api.show("MODIFIED", pod("a", 6))
    assert api.revision(PODS) == 6
    assert api.revision("/api/v1/nodes") is None
    api.tell(None)
    while api.revision(PODS) is not None:
        threading.Event().wait(0.01)
