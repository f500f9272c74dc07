"""One platform with a real Slurm for the module that asks for it, and the commands that people type in it."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import Cloud, Project, Result, execute, until
from tools import places

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExample ada"
CONTROLLER = ("slurm-controller-0", "slurmctld")


@dataclass
class Site:
    """A stack with Slurm, and its cluster."""

    project: Project

    def kubectl(self, *arguments: str, check: bool = True, seconds: float = 120) -> Result:
        """Runs kubectl as the cluster's administrator."""
        command = self._kubectl(arguments)
        result = execute(command, self.project.folder, self.project.environment(), seconds)
        assert not check or result.code == 0, result.text
        return result

    def kubectl_started(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts kubectl and leaves it running, for tests that watch."""
        return subprocess.Popen(
            self._kubectl(arguments),
            cwd=self.project.folder,
            env=self.project.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _kubectl(self, arguments: Sequence[str]) -> list[str]:
        kubeconfig = self.project.folder / "kubeconfig"
        if not kubeconfig.exists():
            kubeconfig.write_text(self.project.outputs("--show-secrets")["kubeconfig"])
        return [str(places.BIN / "kubectl"), "--kubeconfig", str(kubeconfig), *arguments]

    def slurm(
        self, *command: str, check: bool = True, pod: tuple[str, str] = CONTROLLER, seconds: float = 120
    ) -> Result:
        """Runs a command in a pod of Slurm, by default slurmctld's."""
        return self.kubectl("-n", "slurm", "exec", pod[0], "-c", pod[1], "--", *command, check=check, seconds=seconds)

    def shell(self, script: str, pod: tuple[str, str] = CONTROLLER) -> str:
        """What a shell script says in a pod of Slurm."""
        return self.slurm("bash", "-c", script, pod=pod).out

    def states(self, *, check: bool = True) -> dict[str, str]:
        """Slurm's nodes with their state, such as `IDLE+DYNAMIC_NORM`."""
        out = self.slurm("scontrol", "show", "nodes", "--oneliner", check=check).out
        rows = [dict(item.split("=", 1) for item in line.split() if "=" in item) for line in out.splitlines()]
        return {row["NodeName"]: row["State"] for row in rows if "NodeName" in row}

    def partitions(self) -> dict[str, int]:
        """Slurm's partitions with their number of nodes; empty while slurmctld doesn't answer, as when it starts."""
        out = self.slurm("sinfo", "--noheader", "--format=%R %D", check=False)
        rows = [line.split() for line in out.out.splitlines()] if out.code == 0 else []
        return {name: int(nodes) for name, nodes in rows}

    def evidence(self) -> str:
        """What somebody asks for first who has to find out why a test failed."""
        pods = self.kubectl("-n", "slurm", "get", "pods", "-o", "wide", check=False).text
        said = [
            f"{pod}:\n{self.kubectl('-n', 'slurm', 'logs', pod, '--all-containers', '--tail=60', check=False).text}"
            for pod in (line.split()[0] for line in pods.splitlines()[1:])
        ]
        events = self.kubectl("-n", "slurm", "get", "events", "--sort-by=.lastTimestamp", check=False).text
        state = [self.slurm("scontrol", "show", each, check=False).text for each in ("jobs", "nodes")]
        return "\n".join([pods, *state, *said, "\n".join(events.splitlines()[-60:])])

    def wait_for_idle(self, nodes: set[str], seconds: float = 180) -> None:
        """Waits until slurmctld answers and these nodes, and no others, are idle; three times in a row."""

        def idle() -> bool:
            out = self.slurm("sinfo", "--noheader", "--Node", "--format=%N %t", check=False).out
            return set(out.splitlines()) == {f"{node} idle" for node in nodes}

        until(lambda: all(idle() for _ in range(3)), seconds, f"{', '.join(sorted(nodes))} idle")

    def person(self, command: str, check: bool = True) -> Result:
        """What ada sees when she types a command on a login node, at home."""
        pod = self.kubectl(
            "-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=login", "-o", "name"
        ).out.split()[0]
        return self.slurm("runuser", "-l", "ada", "-c", command, pod=(pod, "login"), check=check)

    def submit(self, script: str, *options: str) -> str:
        """Submits a batch script of ada's and returns its job's number."""
        return self.person(
            f"sbatch --parsable {' '.join(options)} <<'SCRIPT'\n#!/bin/bash\n{script}\nSCRIPT"
        ).out.strip()

    def job(self, number: str) -> dict[str, str]:
        """A job's fields; empty when Slurm knows it no more."""
        out = self.slurm("scontrol", "show", "job", number, "--oneliner", check=False).out
        return dict(item.split("=", 1) for item in out.split() if "=" in item)

    def wait_for(self, number: str, state: str, seconds: float = 60) -> dict[str, str]:
        """A job's fields once it is in a state."""
        until(lambda: self.job(number).get("JobState") == state, seconds, f"job {number} {state}")
        return self.job(number)


@pytest.fixture(scope="module")
def site(cloud: Cloud, folder: Path) -> Site:
    """The dev stack as it is shipped, up."""
    project = Project(folder / "site", cloud, "site")
    project.init()
    project.use_settings("dev", {"slurm": {"people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}}}}, slurm=True)
    project.up()
    return Site(project)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its Slurm said: the platform is gone when somebody reads of it."""
    report = yield
    site = getattr(item, "funcargs", {}).get("site")
    if report.when == "call" and report.failed and isinstance(site, Site):
        report.sections.append(("what Slurm said", site.evidence()))
    return report
