"""An API server that is asked once and watched from then on, as programs in a cluster do it.

What actors list again and again comes from memory, kept current by a watch of each collection; a cluster in which
nothing happens costs next to nothing. Where a watch broke off, or has not shown yet what this client itself has
written, the API server is asked instead: nobody reads something older than what it wrote.
"""

from __future__ import annotations

import json
import marshal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

import httpx

from localcloud.kubernetes.api_server import ApiError, ApiServer, Object, Snapshot

_WATCH_SECONDS = 300
_SILENCE_SECONDS = 120.0
"""A watch is sent a bookmark about every minute; one that is silent for longer is begun again."""
_LAG_SECONDS = 0.5
_NOT_WATCHED = "events"
"""There are many of them, each is written once or twice, and hardly any is read."""

_Key = tuple[str, str]
Query = Mapping[str, str | int]


@dataclass(frozen=True)
class Address:
    """A path of the API server taken apart: `/api/v1/namespaces/slurm/pods/gpu-0/status`."""

    root: str
    namespace: str
    plural: str
    name: str
    part: str

    @classmethod
    def of(cls, path: str) -> Address:
        """Of a collection (then `name` is empty), an object or a part of one."""
        parts = path.strip("/").split("/")
        count = 2 if parts[0] == "api" else 3
        root, rest = "/".join(parts[:count]), parts[count:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, part = (*rest, "", "")[:3]
        return cls(root, namespace, plural, name, part)

    @property
    def collection(self) -> str:
        """The path of all objects beside this one."""
        inside = f"namespaces/{self.namespace}/" if self.namespace else ""
        return f"/{self.root}/{inside}{self.plural}"

    def is_in(self, other: Address) -> bool:
        """Whether this object belongs to a collection: that of its namespace, or of all."""
        return (self.root, self.plural) == (other.root, other.plural) and other.namespace in ("", self.namespace)


@dataclass
class _Collection:
    """What is known of one collection. Objects are kept as bytes: each reader gets its own to change."""

    address: Address
    query: Query
    current: bool = False
    revision: int = 0
    wanted: int = 0
    objects: dict[_Key, tuple[int, bytes]] = field(default_factory=dict[_Key, tuple[int, bytes]])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self, snapshot: Snapshot) -> None:
        with self.changed:
            self.objects = {}
            self.revision = int(snapshot.revision)
            for item in snapshot.items:
                self.put(item)

    def put(self, item: Object) -> None:
        key, revision = _key(item), int(item["metadata"]["resourceVersion"])
        known = self.objects.get(key)
        # An answer to one's own request may come before the watch shows what was there earlier.
        if known is None or known[0] <= revision:
            self.objects[key] = (revision, marshal.dumps(item))

    def drop(self, key: _Key, revision: int | None = None) -> None:
        known = self.objects.get(key)
        if known is not None and (revision is None or known[0] <= revision):
            del self.objects[key]

    def take(self, event: Object) -> None:
        """Take one event of the watch in."""
        item = event["object"]
        with self.changed:
            revision = int(item["metadata"]["resourceVersion"])
            if event["type"] == "DELETED":
                self.drop(_key(item), revision)
            elif event["type"] != "BOOKMARK":
                self.put(item)
            self.revision = max(self.revision, revision)
            self.changed.notify_all()

    def wrote(self, item: Object) -> None:
        """Take in what the API server answered to a change."""
        with self.changed:
            if self.query:
                # Whether it still belongs here only the watch can tell.
                self.wanted = max(self.wanted, int(item["metadata"]["resourceVersion"]))
            else:
                self.put(item)

    def removed(self, key: _Key) -> None:
        with self.changed:
            self.drop(key)

    def read(self) -> list[Object] | None:
        """Every object; None where the API server has to be asked."""
        with self.changed:
            self.changed.wait_for(lambda: not self.current or self.revision >= self.wanted, _LAG_SECONDS)
            if not self.current or self.revision < self.wanted:
                return None
            return [_copy(data) for _, (_, data) in sorted(self.objects.items())]

    def find(self, name: _Key) -> tuple[bool, Object | None]:
        """Whether it is known if there is such an object, and the object."""
        with self.changed:
            known = self.objects.get(name)
            return self.current, _copy(known[1]) if known else None


class WatchingApi(ApiServer):
    """Calls to one API server, of which `list` and `get` mostly need none. Safe to share between threads."""

    def __init__(self, address: str, *, ca_file: str, certificate_file: str, key_file: str) -> None:
        """Prepare calls and watches; nothing is sent yet."""
        super().__init__(address, ca_file=ca_file, certificate_file=certificate_file, key_file=key_file)
        self._streams = httpx.Client(
            base_url=address,
            verify=self._context,
            timeout=httpx.Timeout(10.0, read=_SILENCE_SECONDS),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        self._lock = threading.Lock()
        self._collections: dict[tuple[str, str], _Collection] = {}
        self._closed = False

    def close(self) -> None:
        """Close the connections; calls after this fail."""
        self._closed = True
        super().close()
        self._streams.close()

    def list(self, path: str, **query: str | int) -> list[Object]:
        """All objects below a path."""
        collection = self._collection(path, query)
        found = collection.read()
        return self._begin(collection) if found is None else found

    def revision(self, path: str) -> int | None:
        """Up to which resourceVersion all objects below a path are known; None where the API server has to be asked."""
        collection = self._collection(path, {})
        with collection.changed:
            return collection.revision if collection.current else None

    def get(self, path: str, **query: str | int) -> Object | None:
        """One object; None if it doesn't exist."""
        address = Address.of(path)
        if query or address.plural == _NOT_WATCHED:
            return super().get(path, **query)
        collection = self._watched(address) or self._collection(address.collection, {})
        for _ in range(2):
            known, item = collection.find((address.namespace, address.name))
            if known:
                return item
            try:
                self._begin(collection)
            except ApiError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return None
                raise
        return super().get(path)

    def _watched(self, address: Address) -> _Collection | None:
        with self._lock:
            return next((each for each in self._all(address) if not each.query and each.current), None)

    def _all(self, address: Address) -> Iterator[_Collection]:
        return (each for each in self._collections.values() if address.is_in(each.address))

    def _collection(self, path: str, query: Query) -> _Collection:
        with self._lock:
            key = (path, json.dumps(query, sort_keys=True))
            return self._collections.setdefault(key, _Collection(Address.of(path), dict(query)))

    def _begin(self, collection: _Collection) -> list[Object]:
        """Ask the API server, and watch from there on where nobody does."""
        snapshot = self.snapshot(collection.address.collection, **collection.query)
        with collection.changed:
            watched, collection.current = collection.current, True
            # The watch may have shown more meanwhile, and never tells it again.
            if not watched or int(snapshot.revision) >= collection.revision:
                collection.begin(snapshot)
        if not watched:
            name = f"watch {collection.address.plural}"
            threading.Thread(target=self._follow, args=(collection,), name=name, daemon=True).start()
        return snapshot.items

    def _follow(self, collection: _Collection) -> None:
        """Take in what happens until the watch breaks off; the next reader begins anew."""
        try:
            while not self._closed:
                for event in self._events(collection):
                    if event["type"] == "ERROR":
                        return
                    collection.take(event)
        except (httpx.HTTPError, httpx.StreamError, ValueError, KeyError, RuntimeError):
            # The API server ended, or this client was closed under the watch's feet.
            return
        finally:
            with collection.changed:
                collection.current = False
                collection.changed.notify_all()

    def _events(self, collection: _Collection) -> Iterator[Object]:
        query: dict[str, str | int] = {
            **collection.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(collection.revision),
            "timeoutSeconds": _WATCH_SECONDS,
        }
        with self._streams.stream("GET", collection.address.collection, params=query) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                yield json.loads(line)

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        query: Query | None = None,
        content_type: str = "application/json",
    ) -> Object:
        answer = super()._call(method, path, body=body, query=query, content_type=content_type)
        if method != "GET":
            self._wrote(method, Address.of(path), answer)
        return answer

    def _wrote(self, method: str, address: Address, answer: Object) -> None:
        """Have the collections know of a change before their watches do."""
        if address.part not in ("", "status"):
            # Tokens, scales and evictions are answered with objects of other kinds.
            return
        with self._lock:
            collections = list(self._all(address))
        for each in collections:
            if answer["kind"] != "Status":
                each.wrote(answer)
            elif method == "DELETE":
                each.removed((address.namespace, address.name))


def _key(item: Object) -> _Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _copy(data: bytes) -> Object:
    return cast(Object, marshal.loads(data))  # noqa: S302  only what this process has put there
