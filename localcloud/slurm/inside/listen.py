"""Listens in this network namespace and hands the socket over. Arguments: address, port, descriptor, seconds."""

from __future__ import annotations

import socket
import sys

_BACKLOG = 64


def main() -> None:
    """Listen, and send the listening socket through the unix socket that has the given descriptor."""
    address, port, descriptor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        listener = socket.create_server((address, port), backlog=_BACKLOG)
    except OSError as error:
        sys.exit(f"{address}:{port}: {error}")
    with socket.socket(fileno=descriptor) as receiver:
        socket.send_fds(receiver, [b"1"], [listener.fileno()])


if __name__ == "__main__":
    main()
