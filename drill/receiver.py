"""A webhook on this machine that keeps what it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from drill.observations import Observation

_MOST_BYTES = 100_000


class Receiver:
    """Listens at a free port of the loopback address from its making until `close`."""

    def __init__(self, see: Callable[[Observation], None]) -> None:
        """`see` gets each notice."""

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                at = time.time()
                size = min(int(self.headers.get("Content-Length") or 0), _MOST_BYTES)
                try:
                    body = json.loads(self.rfile.read(size))
                except ValueError:
                    body = None
                if isinstance(body, dict):
                    see(Observation(at, "webhook", "notice", body))  # pyright: ignore[reportUnknownArgumentType]  any JSON
                self.send_response(204 if isinstance(body, dict) else 400)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, name="webhook", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
