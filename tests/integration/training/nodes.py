"""Nodes for the trainer: pods of the local cloud's kind, each with one launcher that runs torchrun and real ranks."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from localcloud.slurm import etc
from localcloud.slurm.images import PATH
from localcloud.slurm.lab import Lab
from training import checkpoints, records

ROOT = Path(__file__).parents[3]
NETWORK = ipaddress.IPv4Network("10.98.0.0/24")
SECONDS = 240.0
# What a run has in common: on CPUs, with an epoch of 20.3 steps that the ranks don't divide.
COMMON = ("--profile", "drill", "--samples", "325", "--batch", "16", "--interval", "10", "--group-timeout", "20")
_SCRIPT = """\
python3 -m training.launch "$@" > "/runs/log-$HOSTNAME" 2>&1
echo $? > "/runs/.exit-$HOSTNAME"
mv "/runs/.exit-$HOSTNAME" "/runs/exit-$HOSTNAME"
"""


@dataclass
class Attempt:
    """One attempt of a job on nodes that run until it ends."""

    lab: Lab
    folder: Path
    number: int
    names: tuple[str, ...]
    pods: list[Path]

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    def ranks(self) -> dict[int, psutil.Process]:
        """The processes of the ranks that live, by rank."""
        found: dict[int, psutil.Process] = {}
        running = self.lab.running()
        for pod in self.pods:
            for process in running[pod].children(recursive=True) if pod in running else ():
                try:
                    environ = process.environ()
                    if "training.train" in process.cmdline() and "RANK" in environ:
                        found[int(environ["RANK"])] = process
                except psutil.Error:
                    continue
        return found

    def signal(self, number: signal.Signals, *ranks: int) -> None:
        """Send a signal to these ranks, or to all."""
        for rank, process in self.ranks().items():
            if not ranks or rank in ranks:
                process.send_signal(number)

    def power_off(self) -> None:
        """Kill everything on every node, without a word."""
        running = self.lab.running()
        for pod in self.pods:
            if pod in running:
                running[pod].kill()
                running[pod].wait(5)

    def until(self, seen: Callable[[], object], what: str) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + SECONDS
        while not seen():
            if self.codes() or time.monotonic() > deadline:
                raise AssertionError(f"{what}: did not come about\n{self.log()}")
            time.sleep(0.01)

    def until_step(self, step: int) -> None:
        """Wait until a step of this attempt is done."""
        self.until(
            lambda: any(each["step"] >= step and each["attempt"] == self.number for each in records.steps(self.run)),
            f"step {step}",
        )

    def seen(self, event: str) -> list[dict[str, Any]]:
        """The events of a kind that this attempt has had."""
        return [each for each in records.events(self.run) if each["event"] == event and each["attempt"] == self.number]

    def codes(self) -> list[int]:
        """The exit codes of the launchers that have ended."""
        return [
            int(path.read_text()) for path in (self.folder / f"exit-{name}" for name in self.names) if path.exists()
        ]

    def end(self) -> int:
        """Wait for the end of all nodes; the highest exit code of their launchers."""
        deadline = time.monotonic() + SECONDS
        while len(self.codes()) < len(self.names):
            assert time.monotonic() < deadline, f"no end\n{self.log()}"
            time.sleep(0.02)
        self.power_off()
        return max(self.codes())

    def log(self) -> str:
        """What the launchers and ranks have said."""
        return "\n".join(path.read_text(errors="replace")[-6000:] for path in sorted(self.folder.glob("log-*")))


@dataclass
class Job:
    """A job in a folder of its own, one attempt after the other."""

    lab: Lab
    folder: Path
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    def start(self, *options: str, nodes: int = 1, ranks: int = 2) -> Attempt:
        """Start the next attempt, on so many nodes with so many ranks each."""
        number = len(list(self.folder.glob("attempt-*")))
        (self.folder / f"attempt-{number}").mkdir(parents=True)
        for old in self.folder.glob("exit-*"):
            old.unlink()
        names = tuple(f"n{index}" for index in range(nodes))
        pods = [self._pod(names, index, ranks, number, options) for index in range(nodes)]
        for pod in pods:
            self.lab.start(pod)
        return Attempt(self.lab, self.folder, number, names, pods)

    def finish(self, *options: str, nodes: int = 1, ranks: int = 2) -> Attempt:
        """An attempt that nobody disturbs, to its good end."""
        attempt = self.start(*options, nodes=nodes, ranks=ranks)
        code = attempt.end()
        assert code == 0, attempt.log()
        return attempt

    def _pod(self, names: Sequence[str], index: int, ranks: int, number: int, options: Sequence[str]) -> Path:
        pod = self.lab.folder / "pods" / f"{self.folder.name}-{number}-{names[index]}"
        pod.mkdir(parents=True)
        hosts = pod / "names"
        hosts.mkdir()
        addresses = [f"10.98.0.{10 + place} {name}" for place, name in enumerate(names)]
        (hosts / "hosts").write_text("\n".join(["127.0.0.1 localhost", *addresses, ""]))
        slurm = {
            "SLURM_JOB_ID": "7",
            "SLURM_RESTART_COUNT": str(number),
            "SLURM_JOB_NODELIST": ",".join(names),
            "SLURM_JOB_NUM_NODES": str(len(names)),
            "SLURM_NODEID": str(index),
            "SLURMD_NODENAME": names[index],
            "SLURM_GPUS_ON_NODE": str(ranks),
        }
        container: dict[str, Any] = {
            "name": "train",
            "argv": ["bash", "-c", _SCRIPT, "bash", "--run", "/runs/run", *COMMON, *self.options, *options],
            "env": {"PATH": PATH, "HOME": "/tmp", "HOSTNAME": names[index], "PYTHONPATH": "/code"}
            | {"PYTHONDONTWRITEBYTECODE": "1"}
            | slurm
            | self.variables,
            "cwd": "/tmp",
            "uid": 0,
            "gid": 0,
            "groups": [],
            "etc": str(self.lab.folder / "etc"),
            "devices": {},
            "gpus": [],
            "mounts": [
                {"source": str(self.folder), "target": "/runs", "read_only": False},
                {"source": str(ROOT / "training"), "target": "/code/training", "read_only": True},
                {"source": str(hosts), "target": etc.NAMES, "read_only": True},
            ],
            "once": True,
            "pre_stop": None,
            "probes": {},
        }
        wanted = {
            "image": str(self.lab.image),
            "hostname": names[index],
            "link": f"v{os.getpid() % 10000}{index}",
            "address": f"10.98.0.{10 + index}/24",
            "grace": 1,
            "init": [],
            "containers": [container],
        }
        (pod / "pod.json").write_text(json.dumps(wanted))
        return pod


def losses(run: Path) -> dict[int, str]:
    """The loss of each step as a hex float, of a step that was done again the last one."""
    return {each["step"]: each["loss"] for each in records.steps(run)}


def repeated(run: Path) -> dict[int, set[str]]:
    """The different losses of each step that was done more than once."""
    found: dict[int, list[str]] = {}
    for each in records.steps(run):
        found.setdefault(each["step"], []).append(each["loss"])
    return {step: set(values) for step, values in found.items() if len(values) > 1}


def last(run: Path, event: str) -> dict[str, Any]:
    """The last event of a kind."""
    return [each for each in records.events(run) if each["event"] == event][-1]


def steps_saved(run: Path) -> list[int]:
    """The steps of the whole checkpoints, newest first."""
    return [int(path.name.removeprefix("step-")) for path in checkpoints.whole(run / "checkpoints")]
