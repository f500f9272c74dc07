"""Messages to Pulumi's engine: progress on a resource's line, and warnings that stay."""

from __future__ import annotations

import threading
from collections.abc import Callable

import grpc
from google.protobuf.empty_pb2 import Empty

from crusoe.provider.protocol import engine_pb2

MESSAGE_SECONDS = 5.0


class Engine:
    """The engine at `address`; without one, as when the schema is read, messages go nowhere."""

    def __init__(self, address: str | None) -> None:
        self.address = address
        self._send: Callable[..., Empty] | None = None
        self._lock = threading.Lock()

    def progress(self, urn: str, message: str) -> None:
        """Show where a long operation stands; the next message takes its place."""
        self._log(engine_pb2.INFO, urn, message, ephemeral=True)

    def warn(self, urn: str, message: str) -> None:
        """Show a warning that stays on the screen."""
        self._log(engine_pb2.WARNING, urn, message, ephemeral=False)

    def debug(self, message: str) -> None:
        """Leave something for whoever looks for a fault of this plugin; shown only with `--debug`."""
        self._log(engine_pb2.DEBUG, "", message, ephemeral=False)

    def _log(self, severity: engine_pb2.LogSeverity.ValueType, urn: str, message: str, *, ephemeral: bool) -> None:
        send = self._connected()
        if send is None:
            return
        request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn, ephemeral=ephemeral)
        try:
            send(request, timeout=MESSAGE_SECONDS)
        except grpc.RpcError:
            # A message that can't be shown is no reason to fail what it is about.
            return

    def _connected(self) -> Callable[..., Empty] | None:
        with self._lock:
            if self._send is None and self.address:
                self._send = grpc.insecure_channel(self.address).unary_unary(
                    "/pulumirpc.Engine/Log",
                    request_serializer=engine_pb2.LogRequest.SerializeToString,
                    response_deserializer=Empty.FromString,
                )
            return self._send
