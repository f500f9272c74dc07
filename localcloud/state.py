"""The state folder: what lies where in it, who holds it, and how a process is told from its successor.

Exactly one server holds a folder, by an advisory lock on the file `lock` that ends with the process, however it ends.
The process file says which process that is, with its start time: process ids are used again, start times are not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEFAULT_STATE = Path(".local/cloud")
DEFAULT_PORT = 8787
HOST = "127.0.0.1"


class LocalCloudError(Exception):
    """Something that the person at the command line can put right; the text says how."""


@dataclass(frozen=True)
class ServerProcess:
    """The process that holds a state folder."""

    pid: int
    started: str
    port: int

    @property
    def endpoint(self) -> str:
        """The base URL of the API, as clients take it."""
        return f"http://{HOST}:{self.port}/v1"

    @property
    def console(self) -> str:
        """The address of its pages."""
        return f"http://{HOST}:{self.port}/console/"

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return start_time(self.pid) == self.started


@dataclass(frozen=True)
class Configuration:
    """What a folder keeps about how it was started last."""

    port: int = DEFAULT_PORT
    outside_vpc: bool = False


class StateFolder:
    """Paths and small files of one state folder."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is made."""
        self.path = path.resolve()
        self.database = self.path / "cloud.db"
        self.log = self.path / "server.log"
        self.crash_log = self.path / "server.err"
        self.clusters = self.path / "clusters"
        self._configuration = self.path / "localcloud.json"
        self._process = self.path / "server.json"
        self._lock = self.path / "lock"

    def exists(self) -> bool:
        """Whether a local cloud was ever started here."""
        return self._configuration.exists()

    def make(self) -> None:
        """Make the folder, for its owner alone."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def configuration(self) -> Configuration:
        """How it was started last."""
        kept = _read(self._configuration)
        return Configuration(**kept) if kept else Configuration()

    def configure(self, configuration: Configuration) -> None:
        """Keep how it is started."""
        _write(self._configuration, asdict(configuration))

    def server(self) -> ServerProcess | None:
        """The process that holds the folder now."""
        if not self.held():
            return None
        kept = _read(self._process)
        process = ServerProcess(**kept) if kept else None
        return process if process and process.alive() else None

    def running(self) -> ServerProcess:
        """The process that holds the folder now. Raises LocalCloudError where there is none."""
        process = self.server()
        if process is None:
            raise LocalCloudError(f"no local cloud runs for {self.path}; start it with 'python -m localcloud up'")
        return process

    def announce(self, port: int) -> ServerProcess:
        """Write down that this process serves the folder."""
        process = ServerProcess(os.getpid(), start_time(os.getpid()) or "", port)
        _write(self._process, asdict(process))
        return process

    def held(self) -> bool:
        """Whether some process holds the folder."""
        if not self._lock.exists():
            return False
        descriptor = os.open(self._lock, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def hold(self) -> None:
        """Take the folder for as long as this process lives; raises LocalCloudError when another has it."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise LocalCloudError(f"another local cloud already uses the state folder {self.path}") from None


def start_time(pid: int) -> str | None:
    """When a process began, in a form that only serves to compare; None when there is no such process."""
    with contextlib.suppress(OSError):
        # The command's name in brackets may hold blanks; the start time is the 22nd field.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    if Path("/proc/self/stat").exists():
        return None
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def _read(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def _write(path: Path, document: dict[str, Any]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)
