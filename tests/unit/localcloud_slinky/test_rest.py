"""The client of slurmrestd, against a small server on a unix socket."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from localcloud.slinky.rest import RestError, SlurmNode, UnixRest

NODES = [
    {"name": "gpu-0", "state": ["IDLE", "DYNAMIC_NORM"], "reason": "", "features": ["gpu"]},
    {"name": "gpu-1", "state": ["mixed", "drain"], "reason": "slurm-operator: xid 79", "features": []},
]


class Server(socketserver.ThreadingUnixStreamServer):
    """Keeps what it was asked, and answers one status."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[tuple[str | None, str | None]] = []
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]  # this test's own

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append((self.command, self.path, body))
        self.server.headers.append((self.headers["X-SLURM-USER-NAME"], self.headers["X-SLURM-USER-TOKEN"]))
        said = {"nodes": NODES, "errors": [{"description": "no such node"}] if self.server.status >= 400 else []}
        text = json.dumps(said).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "rest.sock") as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield running
        running.shutdown()


@pytest.fixture
def rest(tmp_path: Path) -> UnixRest:
    return UnixRest(tmp_path / "rest.sock", lambda: "a-token")


def test_nodes(server: Server, rest: UnixRest) -> None:
    found = rest.nodes()
    assert found["gpu-0"] == SlurmNode("gpu-0", frozenset({"IDLE", "DYNAMIC_NORM"}), "", frozenset({"gpu"}))
    assert (found["gpu-1"].draining, found["gpu-1"].busy, found["gpu-1"].ours) == (True, True, True)
    assert server.asked == [("GET", "/slurm/v0.0.44/nodes/", None)]
    assert server.headers == [("slurm", "a-token")]


def test_updates(server: Server, rest: UnixRest) -> None:
    rest.update_node("gpu-0", "DRAIN", "slurm-operator: x")
    rest.update_node("gpu-0", "UNDRAIN")
    rest.move_node("gpu-0", "fabric:s1")
    assert [body for _, _, body in server.asked] == [
        {"state": ["DRAIN"], "reason": "slurm-operator: x"},
        {"state": ["UNDRAIN"]},
        {"topology_str": "fabric:s1"},
    ]


def test_a_refusal_says_why_and_an_absent_node_is_forgotten_already(server: Server, rest: UnixRest) -> None:
    server.status = 404
    rest.delete_node("gpu-9")
    with pytest.raises(RestError, match="HTTP 404: no such node"):
        rest.update_node("gpu-9", "UNDRAIN")


def test_nobody_listens(rest: UnixRest) -> None:
    with pytest.raises(RestError, match="GET http://slurmrestd/slurm"):
        rest.nodes()


@pytest.mark.parametrize(
    ("states", "drained"),
    [
        ({"IDLE", "DRAIN"}, True),
        ({"DOWN", "DRAIN"}, True),
        ({"IDLE", "DRAIN", "COMPLETING"}, False),
        ({"ALLOCATED", "DRAIN"}, False),
        ({"IDLE"}, False),
    ],
)
def test_drained(states: set[str], drained: bool) -> None:
    assert SlurmNode("n", frozenset(states)).drained is drained
