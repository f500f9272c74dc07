"""Listeners of load balancers, without a cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from localcloud.in_cluster.forwarder import Forwarder
from localcloud.in_cluster.services import Route

VIP = "127.0.0.1"
ROUTE = Route(0, 30022, ("0.0.0.0/0",), (("10.1.0.1", 22), ("10.1.0.2", 22)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((VIP, 0))
        return probe.getsockname()[1]


class Pods:
    """Pods that say their address and then what they hear, backwards, once their client has finished."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.servers: list[asyncio.Server] = []
        self.port = 0

    async def start(self) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard = await reader.read()
            writer.write(heard[::-1])
            writer.close()

        server = await asyncio.start_server(talk, VIP, 0)
        self.servers.append(server)
        self.port = server.sockets[0].getsockname()[1]

    def dial(self, address: str, _port: int) -> socket.socket:
        if address in self.dead:
            raise ConnectionRefusedError(address)
        return socket.create_connection((VIP, self.port))


@pytest.fixture
async def pods() -> AsyncGenerator[Pods]:
    pods = Pods()
    await pods.start()
    yield pods
    for server in pods.servers:
        server.close()


async def ask(address: tuple[str, int], text: bytes = b"abc") -> bytes:
    try:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""


async def test_a_connection_is_passed_on_both_ways_and_to_the_end(pods: Pods) -> None:
    forwarder = Forwarder(lambda _route, _client: True, pods.dial)
    route = replace(ROUTE, port=free_port())
    assert await forwarder.serve(VIP, [route], {}) == {route.port: (VIP, route.port)}
    text = bytes(range(256)) * 4096
    assert await ask((VIP, route.port), text) == text[::-1]
    await forwarder.close()
    assert await ask((VIP, route.port)) == b""


async def test_whoever_is_not_admitted_hears_nothing(pods: Pods) -> None:
    forwarder = Forwarder(lambda route, client: (route.node_port, client) != (30022, VIP), pods.dial)
    route = replace(ROUTE, port=free_port())
    await forwarder.serve(VIP, [route], {})
    assert await ask((VIP, route.port)) == b""
    # What has changed holds from the next connection on.
    await forwarder.serve(VIP, [replace(route, node_port=30023)], {})
    assert await ask((VIP, route.port)) == b"cba"
    await forwarder.close()


async def test_a_pod_that_does_not_answer_is_passed_over(pods: Pods) -> None:
    forwarder = Forwarder(lambda _route, _client: True, pods.dial)
    route = replace(ROUTE, port=free_port())
    await forwarder.serve(VIP, [route], {})
    pods.dead = {"10.1.0.1"}
    assert [await ask((VIP, route.port)) for _ in range(8)] == [b"cba"] * 8
    pods.dead = {"10.1.0.1", "10.1.0.2"}
    assert await ask((VIP, route.port)) == b""
    await forwarder.close()


async def test_a_port_that_can_not_be_had_is_replaced_and_the_replacement_kept(pods: Pods) -> None:
    with socket.create_server((VIP, 0)) as other:
        taken = other.getsockname()[1]
        forwarder = Forwarder(lambda _route, _client: True, pods.dial)
        [(port, elsewhere)] = (await forwarder.serve(VIP, [replace(ROUTE, port=taken)], {})).items()
        assert port == taken
        assert elsewhere != (VIP, taken)
        assert await ask(elsewhere) == b"cba"
        await forwarder.close()
        again = Forwarder(lambda _route, _client: True, pods.dial)
        kept = await again.serve(VIP, [replace(ROUTE, port=taken)], {taken: elsewhere})
        assert kept == {taken: elsewhere}
        await again.close()


async def test_an_address_that_the_machine_does_not_have_is_replaced_by_the_loopback_one(pods: Pods) -> None:
    forwarder = Forwarder(lambda _route, _client: True, pods.dial)
    listens = await forwarder.serve("192.0.2.1", [replace(ROUTE, port=8443)], {})
    assert listens[8443][0] == VIP
    assert await ask(listens[8443]) == b"cba"
    await forwarder.close()


async def test_ports_and_load_balancers_that_are_gone_are_not_listened_for(pods: Pods) -> None:
    forwarder = Forwarder(lambda _route, _client: True, pods.dial)
    one, other = replace(ROUTE, port=free_port()), replace(ROUTE, port=free_port())
    await forwarder.serve(VIP, [one, other], {})
    await forwarder.serve(VIP, [other], {})
    assert await ask((VIP, one.port)) == b""
    assert await ask((VIP, other.port)) == b"cba"
    await forwarder.keep([])
    assert await ask((VIP, other.port)) == b""
