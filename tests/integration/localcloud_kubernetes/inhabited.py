"""A whole local cloud on real control planes with chosen actors, in this process: REST and kubectl side by side."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from localcloud import pools
from localcloud.api.families import WORKS
from localcloud.app import Application
from localcloud.cloud import Cloud
from localcloud.control_plane import NoControlPlane
from localcloud.facts import Facts
from localcloud.keys import load_or_make
from localcloud.kubernetes import CloudAccess, KwokControlPlane
from localcloud.kubernetes.actors import Actor
from localcloud.store import Store
from tests.integration.localcloud_kubernetes.support import Live
from tests.unit.localcloud.conftest import Api
from tools.toolchain import binary

T = TypeVar("T")
Json = dict[str, Any]
MakeActors = Callable[[Cloud], Mapping[str, Actor]]


class Inhabited:
    """The cloud as a test uses it."""

    def __init__(self, api: Api, plane: KwokControlPlane, root: Path) -> None:
        self.cloud = api.cloud
        self._api = api
        self._plane = plane
        self._root = root

    def wait(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.cloud.from_thread(step)

    def get(self, path: str) -> Any:
        return self.wait(lambda: self._api.get(path))

    def items(self, path: str) -> list[Json]:
        return self.get(f"{{p}}/{path}")["items"]

    def refused(self, status: int, method: str, path: str) -> str:
        return self.wait(lambda: self._api.refused(status, method, f"{{p}}/{path}"))

    def done(self, method: str, path: str, body: Json | None = None, seconds: float = 90.0) -> Any:
        """Make a call that starts an operation, wait until it has succeeded, and answer its result."""
        family = "/".join(path.split("/")[: 3 if path.startswith("compute") else 2])
        answer = self.wait(lambda: self._api.call(method, f"{{p}}/{path}", body))
        assert answer.status_code == httpx.codes.OK, answer.text
        operation, deadline = answer.json()["operation"], time.monotonic() + seconds
        while operation["state"] == "IN_PROGRESS":
            assert time.monotonic() < deadline, f"{method} {path} takes too long"
            time.sleep(0.1)
            operation = self.get(f"{{p}}/{family}/operations/{operation['operation_id']}")
        assert operation["state"] == "SUCCEEDED", operation
        return operation["result"]

    def live(self, cluster_id: str) -> Live:
        async def spec() -> Any:
            cluster = self.cloud.store.get(pools.CLUSTER, cluster_id)
            assert cluster is not None
            return pools.cluster_spec(cluster)

        return Live(self._plane, self.wait(spec), self._root)

    def journal(self, kind: str) -> list[Json]:
        async def read() -> list[Json]:
            return [
                event.detail | {"subject": event.subject}
                for event in self.cloud.journal.since(limit=100_000)
                if event.kind == kind
            ]

        return self.wait(read)


@contextmanager
def inhabited(folder: Path, actors: MakeActors) -> Generator[Inhabited]:
    """Serve the folder's state, as a started server would; ended as by a kill: the control planes go on."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="the served cloud", daemon=True)
    thread.start()
    root = folder / "clusters"

    async def start() -> tuple[Application, httpx.AsyncClient, KwokControlPlane]:
        facts = Facts()
        keys = load_or_make(folder, facts.projects)
        key = keys.of_project("local")
        cloud = Cloud(Store(folder / "cloud.db"), keys, lambda: plane, WORKS, facts)
        access = CloudAccess("http://127.0.0.1:8787/v1", key.id, key.secret)
        plane = KwokControlPlane(root, binary=binary, access=access, drain_seconds=5, actors=actors(cloud))
        cloud.store.set_setting("operation_seconds", 0.0)
        application = Application(cloud)
        application.start()
        client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://local")
        return application, client, plane

    async def stop(application: Application, client: httpx.AsyncClient) -> None:
        await client.aclose()
        await application.stop()
        application.cloud.store.close()

    application, client, plane = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield Inhabited(Api(application, client, NoControlPlane()), plane, root)
    finally:
        plane.close()
        asyncio.run_coroutine_threadsafe(stop(application, client), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def cluster_with_nodes(
    cloud: Inhabited, vm_types: Mapping[str, int], add_ons: tuple[str, ...] = ("crusoe_csi",)
) -> str:
    """A CMK v1 cluster in the default network with a pool of each VM type; answers its id."""
    body: Json = {"name": "train", "location": "us-east1-a", "version": "1.33.4-cmk.43", "add_ons": list(add_ons)}
    cluster_id = cloud.done("POST", "kubernetes/clusters", body)["id"]
    for vm_type, count in vm_types.items():
        pool = {"name": vm_type.replace(".", "-"), "cluster_id": cluster_id, "product_name": vm_type, "count": count}
        cloud.done("POST", "kubernetes/nodepools", pool)
    return cluster_id
