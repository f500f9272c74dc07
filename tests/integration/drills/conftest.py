"""A dev stack whose workers have PyTorch, and the drill as `make drill` starts it there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from components.observability.metrics import METRICS
from tests import prometheus as prometheus_server
from tests.harness import ROOT, Project, Result, ended, running_cloud, until
from tests.integration.slurm.conftest import Site
from tests.scraping import Watch
from tools import places
from tools.errors import ToolMissingError
from tools.slurm_root.packages import TRAINING
from tools.slurm_root.root import folder as slurm_root

SECONDS = 600.0
ABSENT = frozenset(
    name
    for name, metric in METRICS.items()
    if metric.exporter not in ("gpuplatform", "monitoring")
    or name.startswith(("gpuplatform_share_", "gpuplatform_borrowed_"))
)
"""Metrics of what a stack on the local cloud has not: machines, slurmctld's own page, GPUs that are shared."""


@dataclass
class Ground:
    """A stack to drill on."""

    project: Project
    site: Site

    @property
    def reports(self) -> Path:
        return self.project.folder / "reports"

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a drill; what it says on standard error comes with the rest."""
        project = self.project
        command = ["pulumi", "-C", str(project.folder), "preview", "--non-interactive", "-s", project.stack]
        preview = {"command": [*command, "--config-file"], "file": str(project.stack_file)}
        outputs = project.outputs("--show-secrets")
        given = json.dumps({"outputs": outputs, "settings": project.settings(), "preview": preview})
        command = [
            *(sys.executable, "-m", "drill", "--stack=dev", f"--kubectl={places.BIN / 'kubectl'}"),
            *(f"--folder={self.reports}", f"--local-state={self.project.cloud.state}", *arguments),
        ]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.project.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as text:
            text.write(given)
        # `communicate` would write to it again.
        process.stdin = None
        return process

    def drill(self, *arguments: str) -> Result:
        """A drill to its end."""
        process = self.started(*arguments)
        out = ended(process, SECONDS)
        return Result(process.returncode, out, "")

    def begun(self) -> subprocess.Popen[str]:
        """A drill whose job has been submitted."""
        before = self.jobs()
        process = self.started()
        until(lambda: self.jobs() > before, 60, "a job of the drill")
        return process

    def report(self, scenario: str) -> dict[str, Any]:
        return json.loads((self.reports / scenario / "report.json").read_text())

    def jobs(self) -> set[str]:
        """Numbers of the jobs that wait or run."""
        return set(self.site.slurm("squeue", "--noheader", "--format=%i").out.split())

    def left(self) -> list[str]:
        """What a drill that has ended left behind: programs, files, jobs, a webhook."""
        mark = f"--kubeconfig={self.reports / 'kubeconfig'}"
        programs = [" ".join(line) for line in map(_line, psutil.process_iter()) if mark in line]
        files = [path.name for path in self.reports.iterdir() if path.name in ("running.json", "kubeconfig")]
        until(lambda: not self.jobs(), 60, "the end of the jobs")
        # What looked on in the pods ends with whoever asked, and not when its own time is over.
        until(lambda: not looking(), 20, "the end of what looked at Slurm in its pods")
        told = self.project.cloud.admin("PUT", "/autoclusters/settings", {})["webhook"]
        return [*programs, *files, *filter(None, [told])]


def looking() -> bool:
    """Whether a drill's look at Slurm, or its reading of a run's files, goes on in some pod."""
    marks = ("scontrol --oneliner show job", "tail -q -n +1")
    return any(mark in " ".join(line) for line in map(_line, psutil.process_iter()) for mark in marks)


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Generator[Ground]:
    """The dev stack with an exporter that has a key of Crusoe's API, up: one for all files of this folder."""
    try:
        slurm_root(TRAINING)
    except ToolMissingError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("drill")
    with running_cloud(folder) as cloud:
        project = Project(folder / "ground", cloud, "dev")
        project.init()
        key = cloud.credentials()
        api_key = {"id": key["CRUSOE_ACCESS_KEY_ID"], "secret": "exporterSecretKey", "expires": "2099-12-31"}
        project.use_settings("dev", {"exporter": {"pollSeconds": 1, "apiKey": api_key}}, slurm=True)
        project.pulumi("config", "set", "--secret", "exporterSecretKey", key["CRUSOE_SECRET_KEY"], "-s", "dev")
        project.up()
        yield Ground(project, Site(project))


@pytest.fixture(scope="package")
def watch(ground: Ground) -> Watch:
    """The stack's exporter."""
    return Watch(ground.site.kubectl)


@dataclass
class Drilled:
    """A default drill: what it said, its report, the job of the killed one before, and the repairs until then.

    It began and ended at these moments, in seconds since 1970, and Prometheus looked on.
    """

    done: Result
    report: dict[str, Any]
    killed_job: str
    repairs: float
    began: float
    ended: float
    prometheus: prometheus_server.Prometheus | None


@pytest.fixture(scope="package")
def prometheus(
    ground: Ground, watch: Watch, tmp_path_factory: pytest.TempPathFactory
) -> Generator[prometheus_server.Prometheus | None]:
    """The real Prometheus, which scrapes the stack's exporter and a page of what this stack has not, if it is here."""
    folder = tmp_path_factory.mktemp("monitoring")
    kubeconfig = ground.project.outputs("--show-secrets")["kubeconfig"]
    own = prometheus_server.through_the_api_server(kubeconfig, watch.page, folder / "key")
    try:
        with (
            prometheus_server.page(prometheus_server.standing_in(ABSENT)) as absent,
            prometheus_server.running(folder / "server", {"exporter": own, "absent": absent}) as server,
        ):
            yield server
    except ToolMissingError:
        yield None


@pytest.fixture(scope="package")
def drilled(ground: Ground, watch: Watch, prometheus: prometheus_server.Prometheus | None) -> Drilled:
    """A drill is killed, and the next one done to its end; in its middle the exporter is killed too."""
    killed = ground.begun()
    [job] = ground.jobs()
    killed.kill()
    killed.communicate()
    assert (ground.reports / "running.json").exists()
    before = watch.scrape()("repairs_total", "pool", "outcome").get(("train", "done"), 0)
    began = time.time()
    process = ground.started()

    def repairing() -> bool:
        return bool({"draining", "replacing"} & {state for (state,) in watch.scrape()("repair_state", "state")})

    until(repairing, 240, "a repair")
    watch.kill(ground.project.cloud.state)
    out = ended(process, SECONDS)
    return Drilled(
        Result(process.returncode, out, ""), ground.report("default"), job, before, began, time.time(), prometheus
    )


def interrupted(process: subprocess.Popen[str], by: signal.Signals) -> str:
    """What a drill says after Ctrl-C, or when a CI run is cancelled."""
    process.send_signal(by)
    return ended(process, 120)
