"""Makes a TCP connection in this network namespace and hands it over. Arguments: address, port, descriptor, seconds."""

from __future__ import annotations

import socket
import sys


def main() -> None:
    """Connect, and send the connection through the unix socket that has the given descriptor."""
    address, port, descriptor, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    try:
        connection = socket.create_connection((address, port), timeout=seconds)
    except OSError as error:
        sys.exit(f"{address}:{port}: {error}")
    connection.settimeout(None)
    with socket.socket(fileno=descriptor) as receiver:
        socket.send_fds(receiver, [b"1"], [connection.fileno()])


if __name__ == "__main__":
    main()
