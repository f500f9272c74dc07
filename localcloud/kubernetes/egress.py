"""How the API server reaches what seems to run in a cluster.

Nothing listens at a Service's or a node's address, so the API server is told (`EgressSelectorConfiguration`) to open
such connections through an HTTP CONNECT proxy on a unix socket. This is that proxy. Resolvers say who plays the program
behind an address; where none does, the answer is 502, and what the API server wanted fails as if nobody listened.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product
from pathlib import Path

from localcloud.kubernetes.actors import Actor, Place
from localcloud.kubernetes.api_server import ApiServer, Kind, Object

_LOG = logging.getLogger(__name__)
_ACCEPT_SECONDS = 0.5
_REQUEST_SECONDS = 10.0
_REQUEST_BYTES = 8192
_COPY_BYTES = 65536
_SERVICES = Kind("v1", "services", namespaced=True)
_ENDPOINT_SLICES = Kind("discovery.k8s.io/v1", "endpointslices", namespaced=True)

Server = Callable[[socket.socket], None]
"""Serves one connection until it ends; the proxy closes it."""

Resolver = Callable[[Place, str, int], Server | None]
"""Who serves this host (a Service's cluster IP, a node's name or address) and port; None if it is not theirs."""


@dataclass(frozen=True)
class ServicePort:
    """The port of a Service behind a cluster IP."""

    namespace: str
    name: str
    port: int


def service_at(api: ApiServer, host: str, port: int) -> ServicePort | None:
    """The Service with this cluster IP and port, if some pod behind it is ready; None otherwise."""
    for item in api.list(_SERVICES.path()):
        spec = item["spec"]
        if spec.get("clusterIP") == host and any(entry["port"] == port for entry in spec.get("ports", [])):
            found = ServicePort(item["metadata"]["namespace"], item["metadata"]["name"], port)
            return found if _has_ready_pods(api, found) else None
    return None


def endpoints_at(api: ApiServer, host: str, port: int) -> list[tuple[str, int]]:
    """Address and port of each ready pod behind the Service with this cluster IP and port."""
    for item in api.list(_SERVICES.path()):
        entry = next((each for each in item["spec"].get("ports", []) if each["port"] == port), None)
        if item["spec"].get("clusterIP") == host and entry is not None:
            metadata = item["metadata"]
            slices = _slices(api, metadata["namespace"], metadata["name"])
            return [each for found in slices for each in _ready(found, entry.get("name") or "")]
    return []


def _ready(found: Object, name: str) -> Iterator[tuple[str, int]]:
    """Addresses of an EndpointSlice that are ready, with the port of that name."""
    ports: list[Object] = found.get("ports") or []
    endpoints: list[Object] = found.get("endpoints") or []
    for endpoint in endpoints:
        if endpoint.get("conditions", {}).get("ready"):
            addresses: list[str] = endpoint["addresses"]
            yield from product(addresses, (each["port"] for each in ports if (each.get("name") or "") == name))


def forward_to(target: tuple[str, int]) -> Server:
    """Pass everything on to a TCP address of this machine."""
    return forward(lambda: socket.create_connection(target, timeout=_REQUEST_SECONDS))


def forward(connect: Callable[[], socket.socket]) -> Server:
    """Pass everything on to where a connection leads."""

    def serve(client: socket.socket) -> None:
        with connect() as server:
            server.settimeout(None)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()

    return serve


def egress(resolvers: Sequence[Resolver]) -> Actor:
    """The proxy of one cluster, as an actor."""

    def act(place: Place, stop: threading.Event) -> None:
        path = place.home.egress_socket
        with _listen(path) as listener:
            while not stop.is_set():
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(
                    target=_connection, args=(client, place, resolvers), name="egress-connection", daemon=True
                ).start()
        path.unlink(missing_ok=True)

    return act


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # It has its name once it answers: who finds it before would be refused.
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(draft))
    draft.chmod(0o600)
    listener.listen(64)
    draft.replace(path)
    listener.settimeout(_ACCEPT_SECONDS)
    return listener


def _connection(client: socket.socket, place: Place, resolvers: Sequence[Resolver]) -> None:
    with client:
        try:
            client.settimeout(_REQUEST_SECONDS)
            target = _target(client)
            server = _resolve(place, resolvers, *target) if target else None
            if server is None:
                _answer(client, HTTPStatus.BAD_REQUEST if target is None else HTTPStatus.BAD_GATEWAY)
                return
            _answer(client, HTTPStatus.OK)
            client.settimeout(None)
            server(client)
        except OSError as error:
            # The API server went away, or who was to serve it did; the API server reports what it saw.
            _LOG.debug("a connection of the API server of cluster %s ended: %s", place.cluster.name, error)


def _resolve(place: Place, resolvers: Sequence[Resolver], host: str, port: int) -> Server | None:
    for resolver in resolvers:
        if (server := resolver(place, host, port)) is not None:
            return server
    return None


def _target(client: socket.socket) -> tuple[str, int] | None:
    """The host and port that a CONNECT request asks for; None if it is another request."""
    head = b""
    # The API server sends nothing more until it has an answer, so reading to the blank line reads no byte too much.
    while b"\r\n\r\n" not in head and len(head) < _REQUEST_BYTES:
        data = client.recv(_REQUEST_BYTES)
        if not data:
            return None
        head += data
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    host, _, port = rest.split(" ")[0].rpartition(":")
    if method != "CONNECT" or not port.isdigit():
        return None
    return host.strip("[]"), int(port)


def _answer(client: socket.socket, status: HTTPStatus) -> None:
    client.sendall(f"HTTP/1.1 {status.value} {status.phrase}\r\n\r\n".encode())


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_COPY_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One side is gone: wake the other copy up, which may still wait for it.
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def _slices(api: ApiServer, namespace: str, name: str) -> list[Object]:
    return api.list(_ENDPOINT_SLICES.path(namespace), labelSelector=f"kubernetes.io/service-name={name}")


def _has_ready_pods(api: ApiServer, service: ServicePort) -> bool:
    for item in _slices(api, service.namespace, service.name):
        endpoints: list[Object] = item.get("endpoints") or []
        if any(endpoint.get("conditions", {}).get("ready") for endpoint in endpoints):
            return True
    return False
