"""A cloud without control planes, driven over ASGI by a signer of the tests' own."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest

from localcloud.api.families import WORKS
from localcloud.app import Application
from localcloud.cloud import Cloud
from localcloud.control_plane import NoControlPlane
from localcloud.facts import Facts
from localcloud.keys import ApiKey, load_or_make
from localcloud.store import Store

FACTS = Facts()
PROJECT = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
IB_EAST = "00000000-0000-4000-8000-000000000101"
IB_ICELAND = "00000000-0000-4000-8000-000000000105"
NVL = "00000000-0000-4000-8000-000000000201"
H100 = "h100-80gb-sxm-ib.8x"
V1, V2 = "1.33.4-cmk.43", "1.35.5"


def signature(key: ApiKey, path: str, query: str, method: str, stamp: str) -> str:
    """A signature as the API's description has it; written apart from the code that checks it."""
    secret = base64.urlsafe_b64decode(key.secret + "=" * (-len(key.secret) % 4))
    text = "\n".join((path, query, method, stamp, "")).encode()
    return base64.urlsafe_b64encode(hmac.new(secret, text, "sha256").digest()).decode().rstrip("=")


def now_stamp(offset: float = 0.0) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset))


class Api:
    """Signed calls below `/v1`; `{p}` in a path stands for the project."""

    def __init__(self, application: Application, client: httpx.AsyncClient, plane: NoControlPlane) -> None:
        self.application = application
        self.cloud = application.cloud
        self.client = client
        self.plane = plane
        self.key = application.cloud.keys.of_project("local")

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> httpx.Response:
        return await self.call_as(self.key, method, path, body, **query)

    async def call_as(self, key: ApiKey, method: str, path: str, body: Any = None, **query: str) -> httpx.Response:
        full = "/v1" + path.replace("{p}", f"/projects/{PROJECT}")
        canonical = "&".join(f"{quote_plus(k)}={quote_plus(v)}" for k, v in sorted(query.items()))
        stamp = now_stamp()
        headers = {
            "Authorization": f"Bearer 1.0:{key.id}:{signature(key, full, canonical, method, stamp)}",
            "X-Crusoe-Timestamp": stamp,
        }
        url = f"{full}?{canonical}" if canonical else full
        return await self.client.request(method, url, json=body, headers=headers)

    async def get(self, path: str, **query: str) -> Any:
        return self._ok(await self.call("GET", path, **query))

    async def post(self, path: str, body: Any = None, **query: str) -> Any:
        return self._ok(await self.call("POST", path, body, **query))

    async def patch(self, path: str, body: Any) -> Any:
        return self._ok(await self.call("PATCH", path, body))

    async def delete(self, path: str) -> Any:
        return self._ok(await self.call("DELETE", path))

    async def refused(self, status: int, method: str, path: str, body: Any = None, **query: str) -> str:
        """The message of a refusal with this status."""
        answer = await self.call(method, path, body, **query)
        assert answer.status_code == status, answer.text
        assert set(answer.json()) <= {"code", "message", "error_id", "reason"}
        return answer.json()["message"]

    async def admin(self, method: str, path: str, body: Any = None) -> Any:
        token = self.cloud.keys.admin_token
        answer = await self.client.request(method, f"/_local/{path}", json=body, headers={"X-Local-Token": token})
        return self._ok(answer)

    async def fault(self, match: str, kind: str, **options: Any) -> None:
        await self.admin("POST", "faults", {"match": match, "kind": kind, **options})

    @staticmethod
    def _ok(answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()

    # What most tests need first.

    async def network(self, name: str = "net", cidr: str = "10.0.0.0/16") -> str:
        return (await self.post("{p}/networking/vpc-networks", {"name": name, "cidr": cidr}))["network"]["id"]

    async def subnet(
        self, network_id: str, name: str = "sub", cidr: str = "10.0.0.0/20", location: str = "us-east1-a"
    ) -> str:
        body = {"name": name, "cidr": cidr, "location": location, "vpc_network_id": network_id}
        return (await self.post("{p}/networking/vpc-subnets", body))["subnet"]["id"]

    async def partition(self, name: str = "part", network: str = IB_EAST) -> str:
        return (await self.post("{p}/networking/ib-partitions", {"name": name, "ib_network_id": network}))["id"]

    async def cluster(self, name: str = "clu", version: str = V1, location: str = "us-east1-a", **more: Any) -> str:
        body = {"name": name, "version": version, "location": location, **more}
        return succeeded(await self.post("{p}/kubernetes/clusters", body))["id"]

    async def pool(self, cluster_id: str, name: str = "pool", count: int = 2, **more: Any) -> dict[str, Any]:
        body = {"name": name, "cluster_id": cluster_id, "count": count, "product_name": "c1a.8x", **more}
        return succeeded(await self.post("{p}/kubernetes/nodepools", body))["node_pool"]

    async def read_pool(self, pool_id: str) -> dict[str, Any]:
        return await self.get("{p}/kubernetes/nodepools/" + pool_id)


def succeeded(answer: dict[str, Any]) -> Any:
    """The result of an operation that was finished at once."""
    assert answer["operation"]["state"] == "SUCCEEDED", answer
    return answer["operation"]["result"]


def failed(answer: dict[str, Any]) -> str:
    """The message of an operation that failed at once."""
    assert answer["operation"]["state"] == "FAILED", answer
    return answer["operation"]["result"]["message"]


def make_cloud(folder: Path, seconds: float, plane: NoControlPlane, *, kept: bool = True) -> Cloud:
    """A cloud on a state file of the folder, as a server would open it; its state in memory if it is not `kept`."""
    keys = load_or_make(folder, FACTS.projects)
    cloud = Cloud(Store(folder / "cloud.db" if kept else ":memory:"), keys, lambda: plane, WORKS, FACTS)
    cloud.store.set_setting("operation_seconds", seconds)
    return cloud


@asynccontextmanager
async def running(
    folder: Path, seconds: float = 0.0, plane: NoControlPlane | None = None, *, kept: bool = True
) -> AsyncGenerator[Api]:
    """A server's life: opened on the folder's state, ended as by a kill, with nothing told to anyone."""
    plane = plane or NoControlPlane()
    application = Application(make_cloud(folder, seconds, plane, kept=kept))
    application.start()
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://local") as client:
        yield Api(application, client, plane)
    await application.stop()
    application.cloud.store.close()


@pytest.fixture(scope="session")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the API keys of all clouds that keep nothing lie."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture
async def api(keys_folder: Path) -> AsyncGenerator[Api]:
    """A running cloud whose operations take no time, and whose state ends with it."""
    async with running(keys_folder, kept=False) as api:
        yield api
