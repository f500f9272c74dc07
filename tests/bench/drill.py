"""`make bench ARGS=drill`: the numbers of the default drill on the stack `dev`, and the memory that all of it takes."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from pathlib import Path

import psutil

from tests import processes
from tests.bench.report import Measurement, publish
from tests.harness import ROOT, Project, ended, running_cloud
from tests.integration.drills.conftest import SECONDS, Ground
from tests.integration.slurm.conftest import Site

GIGABYTE = 1e9
EVERY_SECONDS = 2.0


def main() -> int:
    """Bring up, drill once so that the undisturbed run is there, and measure the second drill."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, running_cloud(Path(name)) as cloud:
        project = Project(Path(name) / "dev", cloud, "dev")
        project.init()
        project.use_settings("dev", slurm=True)
        project.up()
        ground = Ground(project, Site(project))
        first = ground.drill()
        assert first.code == 0, first.out
        began, memory = time.monotonic(), Memory(cloud.state)
        process = ground.started()
        with memory:
            out = ended(process, SECONDS)
        took = time.monotonic() - began
        assert process.returncode == 0, out
        report = ground.report("default")
    figures, own = report["figures"], report["shares"].get("platform", 0.0)
    measurements = [
        Measurement("default drill", took, 240, "s", "from its start to its verdict, the undisturbed run kept"),
        Measurement("failure to the next step", figures["total"], 30, "s", "as the drill's report has it"),
        Measurement("... of which this project's own", own, 2, "s", "all but Slurm, PyTorch and settable delays"),
        Measurement("memory while it is drilled", memory.most / GIGABYTE, 3, "GB", "the peak; shared pages count once"),
    ]
    return 0 if publish(measurements, ROOT / ".local/bench-drill.json") else 1


class Memory:
    """The most that the local cloud and all that it started have held together, looked at every few seconds."""

    def __init__(self, state: Path) -> None:
        self.most = 0
        self._state = state
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            mine = {each for one in processes.mentioning(self._state) for each in processes.family(one.pid)}
            self.most = max(self.most, sum(map(_held, mine)))


def _held(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        # Of a page that several have, each counts its part: PyTorch's libraries are many ranks'.
        return process.memory_full_info().pss
    return 0
