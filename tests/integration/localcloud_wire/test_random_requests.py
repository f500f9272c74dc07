"""Whatever a client sends, the local cloud answers in the shapes of its description, and never with a 500.

Requests are made by schemathesis from the API's description: valid ones, and ones that break it in every way. They
are signed and go over a real connection to a server without control planes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit

import httpx
import pytest
import requests
import schemathesis
import uvicorn
from hypothesis import settings
from requests.auth import AuthBase
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from localcloud.app import Application, api_app
from localcloud.control_plane import NoControlPlane
from localcloud.keys import ApiKey
from tests.unit.localcloud.conftest import PROJECT, Api, make_cloud, now_stamp, signature

pytestmark = pytest.mark.integration

# Their types are generic over what only the run knows.
_SCHEMATHESIS, _CHECKS, _OPENAPI = (cast("Any", each) for each in (schemathesis, checks, openapi_checks))

DESCRIBED = _SCHEMATHESIS.openapi.from_dict(api_app().openapi())
CHECKS = [
    _CHECKS.not_a_server_error,
    _OPENAPI.status_code_conformance,
    _OPENAPI.content_type_conformance,
    _OPENAPI.response_schema_conformance,
]


@dataclass(frozen=True)
class Signed(AuthBase):
    """Signs what is really sent."""

    key: ApiKey

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        parts = urlsplit(str(request.url))
        pairs = sorted(parse_qsl(parts.query, keep_blank_values=True))
        canonical = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)
        stamp = now_stamp()
        text = signature(self.key, unquote(parts.path), canonical, str(request.method), stamp)
        request.headers["Authorization"] = f"Bearer 1.0:{self.key.id}:{text}"
        request.headers["X-Crusoe-Timestamp"] = stamp
        return request


@dataclass(frozen=True)
class Served:
    """A server, and the ids of what stands in it by the name of the path's parameter."""

    url: str
    auth: Signed
    known: dict[str, str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    folder, ready = tmp_path_factory.mktemp("keys"), threading.Event()
    servers: list[uvicorn.Server] = []
    told: list[Served] = []

    async def serve() -> None:
        # Made here, since a cloud's state belongs to the thread that opened it.
        application = Application(make_cloud(folder, 0.0, NoControlPlane(), kept=False))
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        servers.append(uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)))
        serving = asyncio.create_task(servers[0].serve(sockets=[listening]))
        told.append(Served(url, Signed(application.cloud.keys.of_project("local")), await furnish(application, url)))
        ready.set()
        await serving

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    yield told[0]
    servers[0].should_exit = True
    thread.join(20)
    assert not thread.is_alive()


async def furnish(application: Application, url: str) -> dict[str, str]:
    """One object of each kind."""
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        api = Api(application, client, NoControlPlane())
        network = await api.network()
        subnet = await api.subnet(network)
        cluster = await api.cluster()
        pool = await api.pool(cluster)
        return {"network_id": network, "subnet_id": subnet, "cluster_id": cluster, "pool_id": pool["id"]}


@DESCRIBED.parametrize()
@settings(max_examples=6, deadline=None, database=None)
def test_every_answer_is_one_of_those_described(case: Any, served: Served) -> None:
    assert case.operation.path.startswith("/v1/")
    for known in ({"project_id": PROJECT}, {"project_id": PROJECT, **served.known}):
        given = {name: known.get(name, value) for name, value in case.path_parameters.items()}
        case.path_parameters = given
        case.call_and_validate(base_url=served.url, auth=served.auth, checks=CHECKS, timeout=20)
