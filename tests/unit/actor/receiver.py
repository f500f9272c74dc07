"""A webhook of the test, whose URL has a secret."""

from __future__ import annotations

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "T0P-S3CRET"


class Receiver:
    """A webhook that answers with `status`, byte by byte with `drip`."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self.status, self.drip = 200, False
        self.got: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                while receiver.drip:
                    self.wfile.write(b"H")
                    time.sleep(0.05)
                self.send_response(receiver.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """The actor hangs up, as it should."""

        self.server = Server(("127.0.0.1", 0), Handler)
        if trust is not None:
            self.server.socket = trust.wrap_socket(self.server.socket, server_side=True)
        self.url = (
            f"{'https' if trust else 'http'}://127.0.0.1:{self.server.server_address[1]}/hook/{SECRET}?k={SECRET}"
        )
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def end(self) -> None:
        self.drip = False
        self.server.shutdown()
        self.server.server_close()
