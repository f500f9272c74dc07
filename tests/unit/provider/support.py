"""A Crusoe Cloud in a dictionary, and what a kind needs to run against it without network or waiting."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from crusoe.client import Client, Credentials, Secret
from crusoe.provider.engine import Engine
from crusoe.provider.run import Run
from crusoe.provider.session import Configuration, Session
from crusoe.provider.values import Value
from tests.unit.crusoe.client.support import KEY_TEXT, PROJECT, FakeClock

Json = dict[str, Any]
ENDPOINT = "https://api.example.test/v1"
WRAPPERS = {"networking/vpc-networks": "network", "networking/vpc-subnets": "subnet", "networking/ib-partitions": None}
COLLECTIONS = {
    *WRAPPERS,
    "networking/vpc-firewall-rules",
    "storage/disks",
    "kubernetes/clusters",
    "kubernetes/nodepools",
    "compute/vms/instances",
    "slurm/clusters",
}
Fault = Callable[["FakeApi", httpx.Request, Callable[[], httpx.Response]], httpx.Response]


@dataclass
class FakeApi:
    """Collections of objects by id; creating one of those in WRAPPERS is synchronous, of the others an operation."""

    objects: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    answers: dict[str, Json] = field(default_factory=dict[str, Json])
    operations: dict[str, Json] = field(default_factory=dict[str, Json])
    requests: list[tuple[str, str, Json | None]] = field(default_factory=list[tuple[str, str, Json | None]])
    faults: list[tuple[str, str, Fault]] = field(default_factory=list[tuple[str, str, Fault]])
    failing: str | None = None
    pending: bool = False
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    def put(self, collection: str, **fields: Value) -> str:
        """Put an object there as if somebody else had made it; returns its id."""
        object_id = f"id-{next(self._ids)}"
        self.objects.setdefault(collection, {})[object_id] = {"id": object_id, **fields}
        return object_id

    def fault(self, method: str, path: str, *faults: Fault) -> None:
        """Let the next matching requests meet these faults, one each."""
        self.faults += [(method, path, fault) for fault in faults]

    def sent(self, method: str, path: str = "") -> list[Json | None]:
        """Bodies of the requests of a method to paths that contain `path`."""
        return [body for one, where, body in self.requests if one == method and path in where]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v1").removeprefix(f"/projects/{PROJECT}/")
        body = json.loads(request.content) if request.content else None
        self.requests.append((request.method, path, body))
        for index, (method, pattern, fault) in enumerate(self.faults):
            if method == request.method and re.search(pattern, path):
                del self.faults[index]
                return fault(self, request, lambda: self._do(request.method, path, body, request))
        return self._do(request.method, path, body, request)

    def _do(self, method: str, path: str, body: Json | None, request: httpx.Request) -> httpx.Response:
        if path.startswith("/organizations/projects/"):
            return answer({"id": PROJECT, "name": "local"})
        if path in self.answers:
            if method in {"PATCH", "POST"}:
                return answer(self.answers.get(f"{method} {path}", self.answers[path]))
            return answer(self.answers[path])
        head, _, last = path.rpartition("/")
        if head.endswith("/operations"):
            return answer(self.operations[last])
        if path.endswith("/operations"):
            wanted = request.url.params.get("resource_id")
            running = [one for one in self.operations.values() if one["state"] == "IN_PROGRESS" and one["of"] == wanted]
            return answer({"items": running})
        if method == "POST":
            return self._create(path, body or {})
        if method == "GET" and (path in COLLECTIONS or path.endswith("/nodesets")):
            return answer({"items": list(self.objects.get(path, {}).values())})
        found = self.objects.get(head, {}).get(last)
        if found is None:
            return refusal(404, f"{last} not found", "not_found")
        if method == "GET":
            return answer(found)
        if method == "PATCH":
            found |= {self.rename.get(key, key): value for key, value in (body or {}).items()}
            return self._operation(last, found)
        del self.objects[head][last]
        return answer({}) if head in WRAPPERS and WRAPPERS[head] is None else self._operation(last, None)

    def _create(self, path: str, body: Json) -> httpx.Response:
        if any(one["name"] == body["name"] for one in self.objects.get(path, {}).values()):
            return refusal(409, f"{body['name']} exists", "already_exists")
        object_id = self.put(path, **{self.rename.get(key, key): value for key, value in body.items()})
        fields = self.objects[path][object_id]
        if path in WRAPPERS:
            wrapper = WRAPPERS[path]
            return answer({wrapper: fields} if wrapper else fields)
        return self._operation(object_id, fields)

    def _operation(self, object_id: str, result: Json | None) -> httpx.Response:
        operation_id = f"op-{next(self._ids)}"
        state = "FAILED" if self.failing else "IN_PROGRESS" if self.pending else "SUCCEEDED"
        outcome = {"code": "failed", "message": self.failing} if self.failing else result
        self.operations[operation_id] = {
            "operation_id": operation_id,
            "state": state,
            "result": outcome,
            "of": object_id,
        }
        return answer({"operation": self.operations[operation_id]})


def answer(body: object, status: int = 200) -> httpx.Response:
    """A JSON answer."""
    return httpx.Response(status, json=body)


def refusal(status: int, message: str, code: str = "") -> httpx.Response:
    """An error in the API's form."""
    return answer({"code": code, "message": message}, status)


def before(status: int, message: str = "broken") -> Fault:
    """An error instead of the work."""
    return lambda _api, _request, _work: refusal(status, message)


def after(status: int, message: str = "broken") -> Fault:
    """An error although the work was done."""

    def fault(_api: FakeApi, _request: httpx.Request, work: Callable[[], httpx.Response]) -> httpx.Response:
        work()
        return refusal(status, message)

    return fault


def lost(_api: FakeApi, request: httpx.Request, work: Callable[[], httpx.Response]) -> httpx.Response:
    """The connection breaks after the work was done."""
    work()
    raise httpx.ReadError("broken", request=request)


@dataclass
class Messages(Engine):
    """Keeps what would be shown."""

    def __init__(self) -> None:
        super().__init__(None)
        self.warnings: list[str] = []
        self.progressed: list[str] = []

    def progress(self, urn: str, message: str) -> None:
        del urn
        self.progressed.append(message)

    def warn(self, urn: str, message: str) -> None:
        del urn
        self.warnings.append(message)


@dataclass
class Bench:
    """A session on a fake API; `run()` gives a kind what one operation needs."""

    api: FakeApi = field(default_factory=FakeApi)
    clock: FakeClock = field(default_factory=FakeClock)
    engine: Messages = field(default_factory=Messages)

    def __post_init__(self) -> None:
        self.session = Session(Configuration(ENDPOINT, PROJECT), self._connect, self.clock)

    def _connect(self, configuration: Configuration, cancel: threading.Event) -> Client:
        transport = httpx.MockTransport(self.api)
        key = Credentials("key", Secret(KEY_TEXT))
        return Client(
            configuration.endpoint,
            key,
            configuration.project,
            cancel=cancel,
            http_transport=transport,
            clock=self.clock,
        )

    def run(self, name: str = "it", seconds: float = 600.0) -> Run:
        """One operation on the resource `name`."""
        return Run(self.session, self.engine, f"urn:pulumi:s::p::k::{name}", name, seconds, f"seeing to {name}")


def values(**fields: Any) -> dict[str, Any]:
    """Inputs or state; loosely typed, so that tests can write wrong ones too."""
    return fields


def listing(*items: Json) -> Fault:
    """A list that shows these items, whatever is there."""

    def fault(_api: FakeApi, _request: httpx.Request, _work: Callable[[], httpx.Response]) -> httpx.Response:
        return answer({"items": list(items)})

    return fault


def always(result: Any) -> Callable[..., Any]:
    """A function that returns the same, whatever it is given."""

    def function(*_: Any) -> Any:
        return result

    return function
