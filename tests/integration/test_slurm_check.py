"""`make check` on a whole platform: green when it is up, red with both counts when a host comes back with less."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT, Cloud, Project, until
from tools import places

pytestmark = pytest.mark.integration

Json = dict[str, Any]
KUBECTL = str(places.BIN / "kubectl")


class Site:
    """A stack with Slurm, its cluster, and the check of it."""

    def __init__(self, project: Project) -> None:
        self.outputs = project.outputs("--show-secrets")
        self._kubeconfig = project.folder / "kubeconfig"
        self._kubeconfig.write_text(self.outputs["kubeconfig"])

    def kubectl(self, *arguments: str) -> str:
        command = [KUBECTL, f"--kubeconfig={self._kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What `make check` starts, with the outputs as the front door gives them."""
        command = [sys.executable, "-m", "components.slurm.check_command", f"--kubectl={KUBECTL}", *arguments]
        given = json.dumps(self.outputs)
        return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=120, check=False)

    def report(self) -> Json:
        return json.loads(self.check("--json").stdout)

    def worker(self, name: str) -> Json:
        return json.loads(self.kubectl("get", "pod", name, "-n", "slurm", "-o", "json"))


@pytest.fixture(scope="module")
def site(cloud: Cloud, folder: Path) -> Site:
    project = Project(folder / "check", cloud, "check")
    project.init()
    project.use_settings("dev", slurm=True)
    project.up()
    return Site(project)


def test_a_platform_that_is_up_is_green(site: Site) -> None:
    done = site.check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Slurm, Kubernetes and the catalogue agree: 16 GPUs on 2 nodes, all in service." in done.stdout
    assert [each["gpus"] for each in site.report()["nodes"]] == [{"slurm": 8, "kubernetes": 8, "catalog": 8}] * 2


def test_a_host_that_comes_back_with_seven_of_eight_gpus_is_red_with_both_counts(site: Site) -> None:
    # One GPU is gone from the machine, and Kubernetes has not noticed: the pod is placed there again.
    before = site.worker("train-1")
    node = before["spec"]["nodeName"]
    lost = json.dumps({"status": {"capacity": {"nvidia.com/gpu": "7"}}})
    site.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", lost)
    site.kubectl("delete", "pod", "train-1", "-n", "slurm")

    def refused() -> bool:
        found = [each for each in site.report()["nodes"] if each["slurmNode"] == "train-1"]
        return bool(found) and found[0]["gpus"]["slurm"] == 7

    until(refused, 120, "slurmd's registration with seven GPUs")
    report = site.report()
    assert report["agrees"] is False
    (row,) = [each for each in report["nodes"] if each["slurmNode"] == "train-1"]
    assert row["gpus"] == {"slurm": 7, "kubernetes": 8, "catalog": 8}
    assert report["findings"] == [row["finding"]]
    assert "(7 < 8)" in row["finding"]
    assert report["gpus"] == {"slurm": 15, "kubernetes": 16, "catalog": 16}
    done = site.check()
    assert done.returncode == 1
    assert "train-1 has 7 of 8 GPUs in Slurm" in done.stdout


def test_a_silent_controller_is_red_with_its_reason(site: Site) -> None:
    site.kubectl("scale", "statefulset", "slurm-controller", "-n", "slurm", "--replicas=0")
    done = site.check()
    assert done.returncode == 1
    assert "Slurm's controller does not answer" in done.stdout
