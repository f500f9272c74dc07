"""The proxy by which an API server reaches into its cluster."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from localcloud.kubernetes.actors import Place
from localcloud.kubernetes.api_server import ApiServer, Object
from localcloud.kubernetes.egress import Server, ServicePort, egress, endpoints_at, forward_to, service_at
from localcloud.kubernetes.home import Home
from tests.unit.localcloud_kubernetes.support import CLUSTER

SECONDS = 10.0


def echo(client: socket.socket) -> None:
    client.sendall(b"heard " + client.recv(100))


def know_nothing(_place: Place, _host: str, _port: int) -> Server | None:
    return None


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, CLUSTER.id)


@pytest.fixture
def proxy(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """A running proxy that knows one host and forwards to another; yields what it was asked for."""
    monkeypatch.setattr("localcloud.kubernetes.egress._ACCEPT_SECONDS", 0.02)
    asked: list[tuple[str, int]] = []
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])

    def accept() -> None:
        client, _ = listener.accept()
        with client:
            echo(client)

    threading.Thread(target=accept, daemon=True).start()

    def resolve(_place: Place, host: str, number: int) -> Server | None:
        asked.append((host, number))
        return {"known": echo, "elsewhere": forward_to(("127.0.0.1", port))}.get(host)

    stop = threading.Event()
    place = Place(CLUSTER, home, cast(ApiServer, None))
    thread = threading.Thread(target=egress([know_nothing, resolve]), args=(place, stop), daemon=True)
    thread.start()
    for _ in range(200):
        if home.egress_socket.exists():
            break
        stop.wait(0.02)
    yield asked
    stop.set()
    thread.join(SECONDS)
    listener.close()
    assert not home.egress_socket.exists()


def ask(home: Home, request: bytes, then: bytes = b"") -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS)
        client.connect(str(home.egress_socket))
        client.sendall(request)
        said = client.recv(1000)
        if then:
            client.sendall(then)
            said += client.recv(1000)
        return said


@pytest.mark.parametrize("host", ["known", "elsewhere"])
def test_a_known_host_is_served(home: Home, proxy: list[tuple[str, int]], host: str) -> None:
    said = ask(home, f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode(), b"hello")
    assert said == b"HTTP/1.1 200 OK\r\n\r\nheard hello"
    assert proxy == [(host, 443)]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"CONNECT unknown:443 HTTP/1.1\r\n\r\n", b"502"),
        (b"CONNECT [fd00::1]:443 HTTP/1.1\r\n\r\n", b"502"),
        (b"CONNECT known HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://known:443/ HTTP/1.1\r\n\r\n", b"400"),
    ],
)
@pytest.mark.usefixtures("proxy")
def test_everything_else_is_refused(home: Home, request_: bytes, status: bytes) -> None:
    assert ask(home, request_).startswith(b"HTTP/1.1 " + status)


class Lists:
    """An API server that has these lists."""

    def __init__(self, lists: Mapping[str, Sequence[Object]]) -> None:
        self._lists = lists

    def list(self, path: str, **_query: Any) -> Sequence[Object]:
        return self._lists.get(path.rsplit("/", 1)[1], [])


@pytest.mark.parametrize(("ready", "found"), [(True, ServicePort("slinky", "hook", 443)), (False, None), (None, None)])
def test_a_service_counts_only_with_a_ready_pod(ready: bool | None, found: ServicePort | None) -> None:
    service = {
        "metadata": {"namespace": "slinky", "name": "hook"},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 443}]},
    }
    slices = [] if ready is None else [{"endpoints": [{"conditions": {"ready": ready}}]}]
    api = cast(ApiServer, Lists({"services": [service], "endpointslices": slices}))
    assert service_at(api, "10.96.0.9", 443) == found
    assert service_at(api, "10.96.0.9", 80) is None
    assert service_at(api, "10.96.0.8", 443) is None


def test_behind_a_service_are_its_ready_pods_at_their_own_ports() -> None:
    ports = [{"name": "hook", "port": 443}, {"name": "metrics", "port": 8443}]
    service = {
        "metadata": {"namespace": "kueue-system", "name": "hook"},
        "spec": {"clusterIP": "10.96.0.9", "ports": ports},
    }
    endpoints = [
        {"addresses": ["10.1.0.4"], "conditions": {"ready": False}},
        {"addresses": ["10.1.0.5"], "conditions": {"ready": True}},
    ]
    found = {"ports": [{"name": "hook", "port": 9443}, {"name": "metrics", "port": 8443}], "endpoints": endpoints}
    api = cast(ApiServer, Lists({"services": [service], "endpointslices": [found]}))
    assert endpoints_at(api, "10.96.0.9", 443) == [("10.1.0.5", 9443)]
    assert endpoints_at(api, "10.96.0.9", 80) == []
    assert endpoints_at(api, "10.96.0.8", 443) == []
