"""Choosing TCP ports on the loopback address that stay usable over restarts."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Collection

from localcloud.control_plane import ControlPlaneError

LOOPBACK = "127.0.0.1"
# Below the ranges from which Linux (32768) and macOS (49152) take the local ports of outgoing connections: a port
# from there may be in use by anybody at the next start.
_FIRST, _LAST = 20000, 30000
_ATTEMPTS = 2000


def choose_ports(count: int, taken: Collection[int]) -> list[int]:
    """`count` different ports that nobody listens on and that are not in `taken`."""
    chosen: list[int] = []
    for _ in range(_ATTEMPTS):
        if len(chosen) == count:
            return chosen
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if port not in taken and port not in chosen and _bindable(port):
            chosen.append(port)
    raise ControlPlaneError(
        f"No {count} free TCP ports were found between {_FIRST} and {_LAST} on {LOOPBACK}. End what occupies them."
    )


def answers(port: int, seconds: float = 0.5) -> bool:
    """Whether something accepts connections on this port of the loopback address."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=seconds):
            return True
    except OSError:
        return False


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
