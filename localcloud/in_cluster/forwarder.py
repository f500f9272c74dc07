"""The listeners of load balancers on this machine: each connection is checked and passed on to a pod.

Everything runs on the cloud's event loop; only dialing, which may block, is done in a worker thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from localcloud.in_cluster.services import Route

_LOG = logging.getLogger(__name__)
_LOOPBACK = "127.0.0.1"
_CHUNK = 65536

Address = tuple[str, int]
Admits = Callable[[Route, str], bool]
"""Whether a client's address may use a route."""
Dial = Callable[[str, int], socket.socket]
"""A connection to a pod; it may block, and raises OSError."""


@dataclass
class _Listener:
    route: Route
    server: asyncio.Server
    address: Address


class Forwarder:
    """The listeners of one cluster's load balancers."""

    def __init__(self, admits: Admits, dial: Dial) -> None:
        """Listen on nothing yet."""
        self._admits = admits
        self._dial = dial
        self._listeners: dict[tuple[str, int], _Listener] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, vip: str, routes: Sequence[Route], kept: Mapping[int, Address]) -> dict[int, Address]:
        """Listen for exactly these routes at a load balancer's address, and answer where each really is listened for.

        `kept` says where that was before a restart. It is at the address itself unless the machine doesn't allow it
        (ports below 1024 without root, addresses other than 127.0.0.1 on macOS) or another program is there.
        """
        for key in [key for key in self._listeners if key[0] == vip and key[1] not in {one.port for one in routes}]:
            await self._end(self._listeners.pop(key))
        for route in routes:
            listener = self._listeners.get((vip, route.port))
            if listener is None:
                await self._listen(vip, route, kept.get(route.port))
            else:
                listener.route = route
        return {route.port: self._listeners[vip, route.port].address for route in routes}

    async def keep(self, vips: Sequence[str]) -> None:
        """End the listeners of every other load balancer."""
        for key in [key for key in self._listeners if key[0] not in vips]:
            await self._end(self._listeners.pop(key))

    async def close(self) -> None:
        """End every listener and connection."""
        await self.keep(())
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _listen(self, vip: str, route: Route, kept: Address | None) -> None:
        opened = _open([(vip, route.port), *([kept] if kept else []), (vip, 0), (_LOOPBACK, 0)])
        host, port = opened.getsockname()[:2]

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            listener = self._listeners.get((vip, route.port))
            if task is None or listener is None:
                writer.transport.abort()
                return
            self._connections.add(task)
            try:
                await self._pass_on(listener.route, reader, writer)
            finally:
                self._connections.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(accept, sock=opened)
        self._listeners[vip, route.port] = _Listener(route, server, (host, port))

    async def _pass_on(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = writer.get_extra_info("peername")[0]
        if not self._admits(route, client):
            _LOG.info("a connection from %s to port %d of a load balancer was not let in", client, route.port)
            return
        pod = await self._connect(route)
        if pod is None:
            return
        pod_reader, pod_writer = await asyncio.open_connection(sock=pod)
        try:
            await asyncio.gather(_copy(reader, pod_writer), _copy(pod_reader, writer))
        except OSError:
            return
        finally:
            pod_writer.transport.abort()

    async def _connect(self, route: Route) -> socket.socket | None:
        """A connection to one of the ready pods, chosen by chance; None if none of them takes it."""
        for host, port in random.sample(route.endpoints, len(route.endpoints)):
            try:
                connection = await asyncio.to_thread(self._dial, host, port)
            except OSError as error:
                _LOG.info("port %d of pod %s can't be reached: %s", port, host, error)
            else:
                connection.setblocking(False)
                return connection
        return None

    @staticmethod
    async def _end(listener: _Listener) -> None:
        listener.server.close()
        # Not wait_closed: connections that were let in go on until a pod or a client ends them.


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def _open(addresses: Sequence[Address]) -> socket.socket:
    """Listen on the first of these addresses that the machine allows; raises OSError when it allows none."""
    last: OSError | None = None
    for address in addresses:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            listener.close()
            last = error
        else:
            listener.setblocking(False)
            return listener
    raise OSError("no address to listen on") from last
