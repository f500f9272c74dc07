"""A cluster's namespaces as this process sees them: where they are, starting pods in them, entering and ending them.

One set of outer namespaces per cluster holds a bridge and nothing else; each pod has a set of its own inside, with its
hostname, its address and a link to the bridge. Nothing of it shows on this machine's own network. Processes are
recognised by their command lines, which hold the cluster's and the pod's folder, never by a remembered pid.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from localcloud.command_lines import command_lines
from localcloud.slurm import reach
from localcloud.slurm.inside import network

_INSIDE = Path(__file__).parent / "inside"
_NAMESPACES = ("net", "mount", "pid", "uts", "ipc")
_NEEDED = ("unshare", "nsenter")
_START_SECONDS = 20.0
_END_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_POLL_SECONDS = 0.01

WORKERS = ("slurmd", "login")
"""Kinds of pods whose image teams bring their own software in."""


class LabError(Exception):
    """Pods can't be run as processes here; `str()` says why and what to do."""


def no_tool(name: str) -> Path:
    """Find no program. Raises LabError."""
    raise LabError(f"nobody gives pods the program {name} here")


@dataclass(frozen=True)
class Lab:
    """The namespaces of one cluster.

    `folder` is the cluster's, `find_image` gives the folder with Slurm (LabError where there is none), `pods` is the
    range of the pods' addresses, of which the last one is the bridge's. `served` are other addresses of the bridge, for
    `listen`. `tool` finds a program by its name where that folder doesn't have it (LabError where there is none).
    `find_worker_image` gives the folder of workers and login pods, which may have more in it; None for the same one.
    """

    folder: Path
    find_image: Callable[[], Path]
    pods: ipaddress.IPv4Network
    served: tuple[str, ...] = ()
    tool: Callable[[str], Path] = no_tool
    find_worker_image: Callable[[], Path] | None = None

    @property
    def image(self) -> Path:
        """The folder with Slurm. Raises LabError where there is none."""
        return self.find_image()

    def image_of(self, pod: str) -> Path:
        """The folder that a pod of this kind (`app.kubernetes.io/name`) runs. Raises LabError where there is none."""
        return self.find_worker_image() if pod in WORKERS and self.find_worker_image is not None else self.image

    @property
    def nowhere(self) -> str:
        """The bridge's address, at which no port answers."""
        return str(self.pods[-2])

    @property
    def single_user(self) -> bool:
        """Whether everything in pods runs as this one user, because only root may use other users' ids."""
        return os.geteuid() != 0

    def ensure(self) -> None:
        """Make the namespaces where they are missing.

        Raises:
            LabError: this machine doesn't let this user have them.
        """
        image = self.image
        if self.first() is not None:
            return
        missing = [name for name in _NEEDED if shutil.which(name) is None]
        if missing:
            raise LabError(f"{' and '.join(missing)} can't be found on PATH; install util-linux, then start again.")
        if self.single_user and shutil.which("newuidmap") is None:
            # With one user mapped, the kernel refuses setgroups(2), and slurmctld ends.
            raise LabError(
                "Slurm's daemons need root, or newuidmap and a range of this user in /etc/subuid and /etc/subgid. Run "
                "the local cloud as root, or install uidmap, then start again."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        ready = self.folder / network.READY
        ready.unlink(missing_ok=True)
        user = ["--map-root-user", "--map-auto"] if self.single_user else []
        command = [
            "unshare",
            *user,
            *(f"--{name}" for name in _NAMESPACES),
            "--fork",
            "--kill-child",
            *_script("network.py"),
            f"--cluster={self.folder}",
            str(image),
            f"{self.nowhere}/{self.pods.prefixlen}",
            *(f"{address}/32" for address in self.served),
        ]
        log = self.folder / "network.log"
        process = _started(command, log)
        deadline = time.monotonic() + _START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                self.end()
                said = log.read_text(errors="replace").strip().splitlines()
                raise LabError(
                    "this machine gives this user no namespaces for pods "
                    f"({said[-1] if said else 'no answer in time'}). Run the local cloud as root, or let users have "
                    "user namespaces."
                )
            time.sleep(_POLL_SECONDS)

    def start(self, pod: Path) -> None:
        """Start the pod whose `pod.json` lies in a folder; it goes on by itself."""
        first = self.first()
        if first is None:
            raise LabError(f"the namespaces of {self.folder} are gone")
        _started([*self._enter(first.pid), *_script("pod.py"), f"--pod={pod}"], pod / "pod.log")

    def running(self) -> dict[Path, psutil.Process]:
        """The first process of every running pod by the pod's folder."""
        lines = list(command_lines())
        keeper = next((process for process, line in lines if self._keeps(line)), None)
        if keeper is None:
            return {}
        depth = len(_own_pids(keeper)) + 1
        found: dict[Path, psutil.Process] = {}
        for process, line in lines:
            mark = next((word for word in line if word.startswith(f"--pod={self.folder}/")), None)
            if mark is None or line[0] != sys.executable:
                continue
            # Its parents have the same command line, and so have its containers' first processes until they execute
            # their programs: those are the first of a namespace too, but of one further in.
            pids = _own_pids(process)
            if len(pids) == depth and pids[-1] == 1:
                found[Path(mark.removeprefix("--pod="))] = process
        return found

    def pid(self, pod: psutil.Process, inner: int) -> int | None:
        """This machine's pid of a process that the pod's namespace knows as `inner`; None if it is gone."""
        depth = len(_own_pids(pod))
        for process in _family(pod):
            if _own_pids(process)[depth - 1 : depth] == [inner]:
                return process.pid
        return None

    def inside(self, pid: int, *, network_only: bool = False) -> list[str]:
        """What to put before a command so that it runs in a container; `pid` is this machine's of its first process."""
        names = ["net"] if network_only else [*_NAMESPACES]
        user = ["--user", "--preserve-credentials"] if self.single_user else []
        place = [] if network_only else ["--root", "--wd"]
        return ["nsenter", f"--target={pid}", *user, *(f"--{name}" for name in names), *place, "--"]

    def lose(self, pid: int, root: Path, gpus: Sequence[str]) -> list[str]:
        """The command that takes GPUs (as `lose.py` has them) from a container; `pid` as for `inside`."""
        user = ["--user", "--preserve-credentials"] if self.single_user else []
        return ["nsenter", f"--target={pid}", *user, "--mount", "--", *_script("lose.py"), str(root), *gpus]

    def listen(self, first: psutil.Process, address: str, port: int) -> socket.socket:
        """A socket of this process that listens inside, at one of `served`. Raises OSError."""
        return reach.handed(
            self.inside(first.pid, network_only=True), _script("listen.py"), address, port, _CONNECT_SECONDS
        )

    def connect(self, address: str, port: int) -> socket.socket:
        """A TCP connection to a pod's address. Raises OSError."""
        first = self.first()
        if first is None:
            raise ConnectionRefusedError(f"no pod of {self.folder} runs")
        return reach.handed(
            self.inside(first.pid, network_only=True), _script("dial.py"), address, port, _CONNECT_SECONDS
        )

    def connect_to(self, pod: psutil.Process, address: str, port: int) -> socket.socket:
        """A TCP connection to the address of a pod, given its first process. Raises OSError."""
        if self.single_user:
            return self.connect(address, port)
        return reach.entered(pod.pid, address, port, _CONNECT_SECONDS)

    def end(self) -> None:
        """Kill everything."""
        for process, line in command_lines():
            if f"--cluster={self.folder}" in line:
                _kill(process)

    def first(self) -> psutil.Process | None:
        """The process that keeps the namespaces; None where there are none."""
        return next((process for process, line in command_lines() if self._keeps(line)), None)

    def _keeps(self, line: Sequence[str]) -> bool:
        return line[0] == sys.executable and f"--cluster={self.folder}" in line

    def _enter(self, pid: int) -> list[str]:
        user = ["--user", "--preserve-credentials"] if self.single_user else []
        return ["nsenter", f"--target={pid}", *user, *(f"--{name}" for name in _NAMESPACES), "--"]


def _script(name: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(_INSIDE / name)]


def _started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/"
        )


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _own_pids(process: psutil.Process) -> list[int]:
    """The process's pid as each pid namespace counts, from this one inwards (`NSpid` of proc(5))."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return []
    line = next((line for line in text.splitlines() if line.startswith("NSpid:")), "")
    return [int(word) for word in line.split()[1:]]


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
        process.wait(_END_SECONDS)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        return
