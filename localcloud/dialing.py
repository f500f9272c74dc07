"""How the local cloud reaches a port of a pod.

kwok's pods are no processes, so nothing can be reached at their addresses. Whoever runs real processes for pods sets
`Cloud.dialer` to a function of its own when it starts.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

Dialer = Callable[[str, str, int], socket.socket]
"""(cluster id, pod's address, port) to a connected stream socket. It may block, up to some seconds: it is called from
worker threads. Raises OSError when nothing answers there."""


def no_pod_network(cluster_id: str, address: str, port: int) -> socket.socket:
    """The dialer as long as no pod is a process: always ConnectionRefusedError."""
    raise ConnectionRefusedError(f"nothing runs behind {address}:{port} in cluster {cluster_id}")
