"""An address that takes connections and never answers: a private cluster's API server, seen from outside its VPC."""

from __future__ import annotations

import socket

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.ports import LOOPBACK


class BlackHole:
    """A listening socket that nobody serves.

    The kernel completes the first connection or two, whose TLS handshake then hangs; later ones hang while connecting.
    Both are what a firewall that drops packets looks like, so a client's own time limit is what ends the attempt.
    """

    def __init__(self, port: int) -> None:
        """Listen on this port of the loopback address."""
        self.port = port
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK, port))
            self._socket.listen(0)
        except OSError as error:
            self._socket.close()
            raise ControlPlaneError(
                f"Port {port} on {LOOPBACK}, which stands for private clusters seen from outside their VPC, is taken "
                f"({error.strerror}). End the process that listens on it."
            ) from None

    @property
    def address(self) -> str:
        """The URL to put in a kubeconfig."""
        return f"https://{LOOPBACK}:{self.port}"

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
