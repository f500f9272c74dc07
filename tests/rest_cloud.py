"""A local cloud without Kubernetes: its whole API as a process of its own, ready in half a second and cheap to kill.

Clusters have no control plane; one small server answers for all of them that it is ready. Everything else is the local
cloud's own, down to the state file: signatures, operations, stock, quotas, faults. `python -m tests.rest_cloud FOLDER
PORT SECONDS` serves it, where SECONDS is what an operation takes at least.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from localcloud.control_plane import AuthType, ClusterCredentials, ClusterSpec, NoControlPlane
from localcloud.server import Options, serve
from localcloud.state import Configuration, StateFolder
from tests.harness import ROOT, Cloud, free_port, until
from tests.unit.provider.test_kubeconfig import certificate, config


class ReadyPlane(NoControlPlane):
    """Keeps nodes in memory, and hands out kubeconfigs of a server that is always ready."""

    def __init__(self, kubeconfig: str) -> None:
        super().__init__()
        self.kubeconfig = kubeconfig

    def credentials(self, cluster: ClusterSpec, auth_type: AuthType) -> ClusterCredentials:
        """The same kubeconfig for every cluster."""
        found = super().credentials(cluster, auth_type)
        return ClusterCredentials(**{**vars(found), "kube_config": self.kubeconfig})


@dataclass
class RestCloud(Cloud):
    """One such cloud; `seconds` is what an operation takes at least."""

    seconds: float = 0.0
    process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        """Start it, or find it running."""
        if self.process is not None and self.process.poll() is None:
            return
        self.state.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", "tests.rest_cloud", str(self.state), str(self.port), str(self.seconds)]
        with (self.state / "output").open("ab") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        until(self.answers, 30, f"the start of the cloud; see {self.state / 'output'}")

    def answers(self) -> bool:
        """Whether its API is there."""
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{self.port}/_local/health", timeout=5).is_success
        return False

    def down(self) -> None:
        """End it; its state stays."""
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a lost machine does."""
        self.end(signal.SIGKILL)

    def end(self, number: int) -> None:
        """End it by a signal."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)

    def credentials(self) -> dict[str, str]:
        """The environment variables that a client needs."""
        keys = json.loads((self.state / "keys.json").read_text())["keys"]
        key = [one for one in keys if one["project"] == "local"][-1]
        return {
            "CRUSOE_API_ENDPOINT": self.endpoint,
            "CRUSOE_ACCESS_KEY_ID": key["id"],
            "CRUSOE_SECRET_KEY": key["secret"],
        }


@contextmanager
def rest_cloud(folder: Path, seconds: float = 0.0) -> Generator[RestCloud]:
    """Such a cloud for the length of a test."""
    cloud = RestCloud(folder / "cloud", free_port(), seconds=seconds)
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()


def ready_server(folder: Path) -> str:
    """Serve the answer "ready" from a thread, after a restart where it was before; its kubeconfig."""
    kept, chain = folder / "ready.json", folder / "ready.pem"
    if not kept.exists():
        now = datetime.now(UTC)
        pair, port = certificate(now - timedelta(hours=1), now + timedelta(days=365)), free_port()
        chain.write_text(pair.certificate + pair.key)
        kept.write_text(json.dumps({"port": port, "kubeconfig": config(pair, f"https://127.0.0.1:{port}")}))
    found = json.loads(kept.read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", found["port"]), _Ready)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return found["kubeconfig"]


class _Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def main(folder: str, port: str, seconds: str) -> None:
    """Serve until told to end."""
    state = StateFolder(Path(folder))
    plane = ReadyPlane(ready_server(state.path))
    options = Options(operation_seconds=float(seconds))
    serve(state, Configuration(int(port)), options, foreground=False, control_plane=plane)


if __name__ == "__main__":
    main(*sys.argv[1:])
