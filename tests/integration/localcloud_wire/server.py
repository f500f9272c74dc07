"""A local cloud as its own process, started and stopped by its own command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localcloud.admin_client import AdminClient
from localcloud.state import StateFolder

PROJECT = "00000000-0000-4000-8000-000000000001"
SECONDS = 120


class Server:
    """One state folder, driven by `python -m localcloud`."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = StateFolder(state)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One command; its words are kept."""
        done = subprocess.run(
            [sys.executable, "-m", "localcloud", *arguments, "--state", str(self.state)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    def up(self, *arguments: str) -> None:
        port = self.folder.configuration().port if self.folder.exists() else 0
        self.run("up", "--port", str(port), *arguments)

    @property
    def pid(self) -> int:
        process = self.folder.server()
        assert process is not None
        return process.pid

    @property
    def port(self) -> int:
        return self.folder.configuration().port

    def kill(self) -> None:
        """End the server as a power cut of its process would."""
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while self.folder.held():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def keys(self, project: str = "local") -> tuple[str, str]:
        """Key id and secret, as `env` prints them."""
        lines = self.run("env", "--project", project).stdout.splitlines()
        values = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        return values["CRUSOE_ACCESS_KEY_ID"], values["CRUSOE_SECRET_KEY"]

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return AdminClient.of(self.folder).call(method, path, body)

    def fault(self, match: str, kind: str, **options: Any) -> None:
        self.admin("POST", "faults", {"match": match, "kind": kind, **options})

    def requests(self) -> list[dict[str, Any]]:
        return self.admin("GET", "requests?limit=20000")["items"]

    def status(self) -> dict[str, Any]:
        return json.loads(self.run("status", "--json", check=False).stdout)


@contextmanager
def running(state: Path, *arguments: str) -> Generator[Server]:
    """A server that is wiped at the end, control planes included."""
    server = Server(state)
    server.up(*arguments)
    try:
        yield server
    finally:
        server.run("reset")
