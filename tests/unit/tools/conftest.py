"""A file server on the loopback address, and a toolchain that says nothing."""

import io
import socket
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.tools.support import FileServer
from tools.network import Network
from tools.progress import Reporter


@pytest.fixture
def server() -> Generator[FileServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            if self.path in state.mute and state.requests_for(self.path) == 1:
                self.close_connection = True
                return
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.path in state.stalled:
                self.wfile.write(content[:10])
                self.wfile.flush()
                released.wait(20)
            elif self.path in state.truncated or (self.path in state.once and state.requests_for(self.path) == 1):
                self.wfile.write(content[: len(content) // 2])
            else:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        # With Python's five, one of several connections at once is only taken when it is tried again a second later.
        request_queue_size = 64

    released = threading.Event()
    httpd = Server(("127.0.0.1", 0), Handler)
    state = FileServer(httpd.server_address[1])
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield state
    released.set()
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def network() -> Network:
    return Network(connect_seconds=10, stall_seconds=10, transfer_seconds=30, pauses=(0.05,))


@pytest.fixture
def quiet() -> Reporter:
    return Reporter(Console(file=io.StringIO(), width=200))


@pytest.fixture
def closed_url() -> str:
    """The URL of a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder of Go modules that holds `gadget`."""
    folder = tmp_path / "modules" / "gadget"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module gadget\n\ngo 1.21\n")
    (folder / "left-over.json").write_text("{}")
    return folder.parent
