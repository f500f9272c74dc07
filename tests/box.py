"""One container with real programs for tests: Linux namespaces around the folder with Slurm, ended with the test."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from localcloud.slurm import etc
from localcloud.slurm.images import PATH
from localcloud.slurm.lab import Lab, LabError
from tools.errors import ToolMissingError
from tools.slurm_root.root import folder as slurm_root

_NETWORK = ipaddress.IPv4Network("10.99.0.0/24")
ADDRESS = "10.99.0.10"
_START_SECONDS = 20.0


@dataclass
class Box:
    """A container that sleeps, in which commands run as root. `folder` is its pod's on this machine."""

    lab: Lab
    folder: Path

    @property
    def process(self) -> psutil.Process | None:
        """The pod's first process; None when the pod has ended."""
        return self.lab.running().get(self.folder)

    def command(self, *command: str) -> list[str]:
        """What runs a command inside."""
        process = self.process
        assert process is not None, "the pod has ended"
        inner = json.loads((self.folder / "status.json").read_text())["containers"]["box"]["pid"]
        pid = self.lab.pid(process, inner)
        assert pid is not None, "the container has ended"
        return [*self.lab.inside(pid), "env", "-i", f"PATH={PATH}", "HOME=/root", *command]

    def run(self, *command: str, ok: bool = True, seconds: float = 60) -> str:
        """The output of a command inside, stderr and all; with `ok` it has to succeed."""
        done = subprocess.run(
            self.command(*command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not ok or done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def bash(self, script: str, *, ok: bool = True, seconds: float = 60) -> str:
        """The output of a script inside."""
        return self.run("bash", "-c", script, ok=ok, seconds=seconds)

    def write(self, path: str, content: bytes, mode: str = "0644") -> None:
        """Write a file inside."""
        script = 'cat > "$1" && chmod "$2" "$1"'
        subprocess.run(self.command("bash", "-c", script, "bash", path, mode), input=content, check=True)

    @property
    def log(self) -> str:
        """What the container and its hooks have written."""
        return (self.folder / "containers/box/log").read_text(errors="replace")

    def end(self, grace: float) -> None:
        """Begin to end it as a kubelet does: preStop, SIGTERM, SIGKILL when the grace period is over."""
        (self.folder / "stop.json").write_text(json.dumps({"grace": grace}))
        process = self.process
        assert process is not None, "the pod has ended already"
        process.terminate()


@contextmanager
def box(
    name: str,
    mounts: Mapping[str, Path] | None = None,
    *,
    post_start: Sequence[str] | None = None,
    pre_stop: Sequence[str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Generator[Box]:
    """A running box with a hostname.

    `mounts` are folders of this machine by where they are inside, `files` more of /etc.

    Skips the test where there is no Slurm, or where this user may not be several users.
    """
    try:
        image = slurm_root()
    except ToolMissingError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="box-") as scratch:
        top = Path(scratch)
        top.chmod(0o755)
        lab = Lab(top / "lab", lambda: image, _NETWORK)
        if lab.single_user:
            pytest.skip("only root may run programs as several users")
        try:
            lab.ensure()
        except LabError as error:
            pytest.skip(str(error))
        try:
            yield _started(lab, top, name, mounts or {}, {"post_start": post_start, "pre_stop": pre_stop}, files or {})
        finally:
            lab.end()


def _started(
    lab: Lab,
    top: Path,
    name: str,
    mounts: Mapping[str, Path],
    hooks: Mapping[str, Sequence[str] | None],
    files: Mapping[str, str],
) -> Box:
    made = etc.make(top / "etc", lab.image, single_user=False)
    for each, text in files.items():
        (made / each).parent.mkdir(parents=True, exist_ok=True)
        (made / each).write_text(text)
    (top / "names").mkdir()
    (top / "names" / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} {name}\n")
    places = {etc.NAMES: top / "names", **mounts}
    container: dict[str, Any] = {
        "name": "box",
        # A process 1 that ends when it is told to, unlike a bare `sleep`.
        "argv": ["bash", "-c", "trap exit TERM; sleep infinity & wait"],
        "env": {"PATH": PATH, "HOME": "/root"},
        "cwd": "/",
        "uid": 0,
        "gid": 0,
        "groups": [0],
        "etc": str(made),
        "devices": {},
        "gpus": [],
        "mounts": [{"source": str(path), "target": at, "read_only": False} for at, path in places.items()],
        "once": False,
        **{key: list(command) if command else None for key, command in hooks.items()},
        "probes": {},
    }
    folder = top / "lab" / "pods" / "box"
    folder.mkdir(parents=True)
    wanted = {
        "image": str(lab.image),
        "hostname": name,
        "link": "v0",
        "address": f"{ADDRESS}/{_NETWORK.prefixlen}",
        "grace": 1,
        "init": [],
        "containers": [container],
    }
    (folder / "pod.json").write_text(json.dumps(wanted))
    lab.start(folder)
    found = Box(lab, folder)
    until(lambda: _running(found), _START_SECONDS, "the box did not start")
    return found


def _running(found: Box) -> bool:
    try:
        status = json.loads((found.folder / "status.json").read_text())
    except (OSError, ValueError):
        return False
    return "running" in status["containers"]["box"]["state"] and found.process is not None


def until(true: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until something is true.

    Raises:
        AssertionError: it is not, in time; says `what`.
    """
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.1)
