"""An address inside of a cluster behind which a server of this machine is: what connects there is passed on.

The API server has its own, which all pods reach; the local cloud's API is at a pod's loopback, where such a pod's
settings have it. The listening socket belongs to the pods' network, so nobody else can reach it; this process accepts.
While the local cloud is down nothing answers, and pods see a server that is away.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from localcloud.kubernetes.egress import Server
from localcloud.slurm.lab import Lab

_LOG = logging.getLogger(__name__)


class ApiDoor:
    """One address and port in a network of pods."""

    def __init__(
        self, lab: Lab, first: Callable[[], psutil.Process | None], address: str, port: int, serve: Server
    ) -> None:
        """Listen on nothing yet. `first` finds a process of that network, `serve` gets each connection, in a thread."""
        self._lab = lab
        self._find = first
        self._address = (address, port)
        self._serve = serve
        self._first: psutil.Process | None = None
        self._listener: socket.socket | None = None

    def keep_open(self) -> None:
        """Listen where that isn't so: at the first call, and in new namespaces after the old ones ended."""
        if self._first is not None and self._first.is_running():
            return
        self.close()
        first = self._find()
        if first is None:
            return
        # Also after a failure: what keeps it from listening is there as long as these namespaces are.
        self._first = first
        try:
            self._listener = self._lab.listen(first, *self._address)
        except OSError as error:
            _LOG.warning("pods can't reach what is behind %s:%d: %s", *self._address, error)
            return
        threading.Thread(target=self._accept, args=(self._listener,), name="api-door", daemon=True).start()

    def close(self) -> None:
        """Listen no more; connections go on to their ends."""
        listener, self._listener, self._first = self._listener, None, None
        if listener is not None:
            # A closed socket alone would leave the thread waiting.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(client,), name="api-door-connection", daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        # A control plane that is away is what the pod shall see.
        with client, suppress(OSError):
            self._serve(client)
