"""The first process of a pod: it starts the pod's containers, probes them, starts crashed ones again, and ends them.

Arguments: `--pod=<folder>`, by which it is recognised. In the folder lie `pod.json` (see `localcloud.slurm.plan`) and,
once the pod is to end, `stop.json` with the grace period; this process writes `status.json` there, whole each time.

SIGTERM begins the end as a kubelet would make it: preStop hooks, then SIGTERM to each container's first process, then
SIGKILL when the grace period is over; hooks and containers share it. SIGKILL is a power loss: everything in the pod's
namespaces dies with this process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

# Python's isolated mode knows only its own library.
sys.path.insert(0, str(Path(__file__).parents[3]))

from localcloud.slurm.inside import kernel
from localcloud.slurm.inside.container import ended, forked
from localcloud.slurm.inside.network import BRIDGE, ip
from localcloud.slurm.inside.probes import now
from localcloud.slurm.inside.supervised import Supervised

_TICK_SECONDS, _CALM_SECONDS = 0.1, 0.5
"""How often a pod is looked at: while something is on its way, and else. What ends is told at once, by a signal."""
_SIGNALS = {signal.SIGTERM, signal.SIGCHLD}


class Pod:
    """The containers of a pod and what becomes of them."""

    def __init__(self, folder: Path) -> None:
        """Read what is to run; nothing is started."""
        self.folder = folder
        self.wanted: dict[str, Any] = json.loads((folder / "pod.json").read_text())
        image = Path(self.wanted["image"])
        address = self.wanted["address"].partition("/")[0]

        def supervised(kind: str) -> list[Supervised]:
            return [
                Supervised(container, image, folder / "containers" / container["name"], address, self.wanted["grace"])
                for container in self.wanted[kind]
            ]

        self.first, self.main = supervised("init"), supervised("containers")
        self.ending = False
        self._written = ""

    @property
    def all(self) -> list[Supervised]:
        """Every container."""
        return [*self.first, *self.main]

    def run(self) -> None:
        """Until the pod has ended."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        while True:
            self._step(now())
            self._report()
            if self.ending and not any(container.running for container in self.all):
                return
            calm = not self.ending and all(container.calm for container in self.all)
            caught = signal.sigtimedwait(_SIGNALS, _CALM_SECONDS if calm else _TICK_SECONDS)
            if caught is not None and caught.si_signo == signal.SIGTERM and not self.ending:
                self._begin_end(now())
            self._collect()

    def _step(self, at: float) -> None:
        for container in self.first:
            container.tick(at)
            if not self.ending and not container.lets_others_start:
                return
        for container in self.main:
            container.tick(at)

    def _begin_end(self, at: float) -> None:
        try:
            grace = float(json.loads((self.folder / "stop.json").read_text())["grace"])
        except (OSError, ValueError, KeyError):
            grace = float(self.wanted["grace"])
        self.ending = True
        for container in self.all:
            container.end(at + grace)

    def _collect(self) -> None:
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for container in self.all:
                container.gone(pid, ended(raw), now())

    def _report(self) -> None:
        state = {
            "ending": self.ending,
            "initialised": all(container.lets_others_start for container in self.first),
            "containers": {container.name: container.report() for container in self.all},
        }
        text = json.dumps(state)
        if text != self._written:
            draft = self.folder / ".status.json"
            draft.write_text(text)
            draft.replace(self.folder / "status.json")
            self._written = text


def _first_process(folder: Path) -> int:
    kernel.make_private()
    kernel.mount_proc(Path("/proc"))
    Pod(folder).run()
    return 0


def main() -> None:
    """Make the pod's namespaces with its network interface, then be its first process."""
    folder = Path(sys.argv[1].partition("=")[2])
    wanted = json.loads((folder / "pod.json").read_text())
    image = Path(wanted["image"])
    if not (image / "proc/self").exists():
        # The folder with Slurm is another one than when the namespaces were made.
        kernel.bind("/proc", image / "proc")
    made, linked = os.pipe(), os.pipe()

    def inside() -> int:
        kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNS)
        os.write(made[1], b"1")
        if not os.read(linked[0], 1):
            return 1
        ip(image, "link", "set", "lo", "up")
        ip(image, "link", "set", "eth0", "up")
        ip(image, "addr", "add", wanted["address"], "dev", "eth0")
        for address in wanted.get("routes", ()):
            ip(image, "route", "add", address, "dev", "eth0")
        socket.sethostname(wanted["hostname"])
        # Only now: the next child is the namespace's first process, and it ends with it.
        kernel.unshare(kernel.CLONE_NEWPID)
        os.waitpid(forked(lambda: _first_process(folder)), 0)
        return 0

    pid = forked(inside)
    os.close(made[1])
    if os.read(made[0], 1):
        link = wanted["link"]
        ip(image, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        ip(image, "link", "set", link, "master", BRIDGE, "up")
        os.write(linked[1], b"1")
    os.close(linked[1])
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
