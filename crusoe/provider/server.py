"""The plugin process: serves the provider over gRPC on this machine and ends with the engine that started it.

The engine gives its own address as the last argument and reads the port from the first line of the output.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final

import grpc

from crusoe.provider.protocol import provider_pb2_grpc
from crusoe.provider.service import Service

GRACE_SECONDS: Final = 2.0
"""How long calls that are under way may take to answer after a signal."""

WAKE_SECONDS: Final = 0.25
"""How often the main thread looks up. The system may give a signal to another thread; that does not wake the main one,
which has to run the handler."""

WATCH_SECONDS: Final = 5.0
MISSES: Final = 3
"""The engine is taken as dead after this many failed tries to reach it, this many seconds apart."""

WORKERS: Final = 256
"""Calls at once; each waits for the cloud most of its time."""

LARGEST_MESSAGE: Final = 400 * 1024 * 1024
"""Bytes; the engine's own limit."""


def serve(service: Service) -> tuple[grpc.Server, int]:
    """Start serving on a free port of the loopback address; returns the server and its port."""
    server = grpc.server(
        ThreadPoolExecutor(max_workers=WORKERS),
        options=[
            ("grpc.max_receive_message_length", LARGEST_MESSAGE),
            ("grpc.max_send_message_length", LARGEST_MESSAGE),
            ("grpc.so_reuseport", 0),
        ],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def engine_address(arguments: Sequence[str]) -> str | None:
    """Return the engine's address, the last argument that is not an option."""
    plain = [argument for argument in arguments if not argument.startswith("-")]
    return plain[-1] if plain else None


def watch(address: str, gone: threading.Event, seconds: float = WATCH_SECONDS) -> None:
    """Set `gone` when the engine no longer answers: it was killed, and nobody would record what is made now."""
    host, _, port = address.rpartition(":")
    misses = 0
    while not gone.wait(seconds):
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
                misses = 0
        except (OSError, ValueError):
            misses += 1
            if misses >= MISSES:
                gone.set()


def forbid_core_dumps() -> None:
    """Have no image of this process kept after a crash: its memory holds keys. Nothing where there is no such limit.

    Linux hands an image to the program of its `core_pattern` even at a limit of 0, and not at 1 (core(5)), which no
    file fits into either.
    """
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 1 if most else 0
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def main() -> None:
    """Serve until the engine ends this process, or ends itself."""
    forbid_core_dumps()
    gone = threading.Event()
    # A handler may run while the main thread holds the event's lock, so it only takes a note.
    signals: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    address = engine_address(sys.argv[1:])
    service = Service(address)
    server, port = serve(service)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    if address is not None:
        threading.Thread(target=watch, args=(address, gone), daemon=True).start()
    while not signals and not gone.wait(WAKE_SECONDS):
        pass
    service.session.cancel.set()
    server.stop(GRACE_SECONDS).wait(2 * GRACE_SECONDS)
    # Worker threads may still sit in a system call; nothing that they could do matters any more.
    os._exit(0)


if __name__ == "__main__":
    main()
