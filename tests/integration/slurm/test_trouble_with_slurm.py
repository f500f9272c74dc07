"""Troubles of Slurm through the real CLI: no room, Ctrl-C, no charts, workers that move, a dead API server.

One stack for all, in this order: its operator finds no node at first, then Slurm works, and in the end its API server
is dead.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from tests import processes
from tests.harness import ROOT, Cloud, Project, changes, ended, free_port, leftovers, until
from tests.integration.slurm.conftest import KEY, Site

pytestmark = pytest.mark.integration

OPERATOR = "platform-slurm-slinky-releases-slurm-operator"
SHORTEST_WAIT = 30
RUNBOOK = ROOT / "docs" / "troubleshooting.md"
FORGET_HALVES = ("delete", "secrets", "-n", "slinky", "-l", "owner=helm,status notin (deployed, superseded)")
SETTINGS = {
    "charts": {"timeoutSeconds": SHORTEST_WAIT},
    "people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}},
}


@pytest.fixture(scope="module")
def before_operator(cloud: Cloud, folder: Path) -> Site:
    """The dev stack with everything that does not stand on Slinky's operator."""
    project = Project(folder / "trouble", cloud, "trouble")
    project.init()
    project.use_settings("dev", {"slurm": SETTINGS}, slurm=True)
    project.up("--exclude", f"**::{OPERATOR}", "--exclude-dependents")
    return Site(project)


@pytest.fixture(scope="module")
def site(before_operator: Site) -> Site:
    """The whole stack, whatever became of the attempts before."""
    before_operator.project.up()
    return before_operator


@contextmanager
def no_room(site: Site) -> Generator[None]:
    """Every node is cordoned: new pods find no place."""
    site.kubectl("cordon", "--selector=kubernetes.io/hostname")
    try:
        yield
    finally:
        site.kubectl("uncordon", "--selector=kubernetes.io/hostname")


def helm_knows(site: Site, *labels: str) -> list[str]:
    """What Helm has written down of the operator."""
    chosen = ",".join(("owner=helm", "name=slurm-operator", *labels))
    return site.kubectl("-n", "slinky", "get", "secrets", "-l", chosen, "-o", "name").out.split()


def recorded(site: Site) -> list[str]:
    """Names in the stack's state."""
    return [one["urn"].rsplit("::", 1)[1] for one in site.project.resources()]


def test_an_operator_that_finds_no_node_fails_in_bounded_time_and_says_what_is_in_the_way(
    before_operator: Site,
) -> None:
    with no_room(before_operator):
        start = time.monotonic()
        failed = before_operator.project.up(check=False)
        assert time.monotonic() - start < SHORTEST_WAIT + 60
    assert failed.code != 0
    assert (
        f"Not ready after {SHORTEST_WAIT} s: Release slinky/slurm-operator: Deployment slurm-operator: " in failed.text
    )
    assert "FailedScheduling: 0/" in failed.text
    assert "Add or free nodes that fit" in failed.text
    assert (len(helm_knows(before_operator)), OPERATOR in recorded(before_operator)) == (1, True)


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_while_the_operator_is_waited_for(before_operator: Site, interrupts: int) -> None:
    """C19: Helm has done its part by then, so nothing of it is in the way of the next `up`."""
    project = before_operator.project
    with no_room(before_operator):
        process = project.start("up", "--yes", "--skip-preview", "-s", project.stack)
        until(lambda: bool(helm_knows(before_operator, "status=deployed")), 60, "the installation of the operator")
        until(lambda: OPERATOR in recorded(before_operator), 60, "its place in the state")
        # The test before has made both; this run takes an interrupt for one once it is under way.
        until(lambda: "pending_operations" in project.exported()["deployment"], 60, "something that is waited for")
        start = time.monotonic()
        for number in range(interrupts):
            time.sleep(0.5 * number)
            os.killpg(process.pid, signal.SIGINT)
        out = ended(process, 60)
        assert time.monotonic() - start < 30, out
    assert process.returncode != 0
    assert "Traceback" not in out
    if interrupts == 2:
        project.pulumi("cancel", "--yes", "-s", project.stack, check=False)
        project.pulumi("refresh", "--clear-pending-creates", "--yes", "--skip-preview", "-s", project.stack)
    assert (len(helm_knows(before_operator)), OPERATOR in recorded(before_operator)) == (1, True)


def test_what_helm_has_half_made_is_put_right_by_the_documented_line(before_operator: Site) -> None:
    """An `up` that is killed in the second in which Helm installs leaves a note that keeps every later one out."""
    (note,), project = helm_knows(before_operator), before_operator.project
    (urn,) = (one["urn"] for one in project.resources() if one["urn"].endswith(f"::{OPERATOR}"))
    project.pulumi("state", "delete", "--yes", "--target-dependents", "-s", project.stack, urn)
    before_operator.kubectl("-n", "slinky", "label", note, "status=pending-install", "--overwrite")
    failed = project.up(check=False)
    assert failed.code != 0
    assert "still in use" in failed.text
    assert f"kubectl {shlex.join(FORGET_HALVES)}\n" in RUNBOOK.read_text()
    before_operator.kubectl(*FORGET_HALVES)
    assert helm_knows(before_operator) == []


def test_the_next_up_finishes_what_failed_and_was_interrupted(site: Site) -> None:
    assert set(site.states()) == {"train-0", "train-1"}
    assert len(helm_knows(site)) == 1
    assert changes(site.project.preview()) == {}


@dataclass
class Silent:
    """Previews with a source of charts that takes connections and says nothing."""

    began: float
    address: str
    process: subprocess.Popen[str]
    hole: socket.socket


def with_charts_from(site: Site, source: str) -> Path:
    """A copy of the stack's settings with another source of charts."""
    content = yaml.safe_load(site.project.stack_file.read_text())
    content["config"]["platform"]["slurm"]["charts"]["source"] = source
    # A name of its own: a preview with other charts may be about to read its settings.
    file = site.project.folder / f"settings-{hashlib.sha256(source.encode()).hexdigest()[:8]}.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture(scope="module")
def silent(site: Site) -> Generator[list[Silent]]:
    """They take a minute or two and change nothing, so other tests go on meanwhile."""
    begun: list[Silent] = []
    for scheme in ("oci", "https"):
        hole = socket.create_server(("127.0.0.1", 0))
        address = f"127.0.0.1:{hole.getsockname()[1]}"
        file = with_charts_from(site, f"{scheme}://{address}/charts")
        process = site.project.start("preview", "-s", site.project.stack, "--config-file", str(file))
        begun.append(Silent(time.monotonic(), address, process, hole))
    yield begun
    for each in begun:
        each.process.kill()
        each.process.communicate()
        each.hole.close()


@pytest.mark.parametrize("scheme", ["oci", "https"])
@pytest.mark.usefixtures("silent")
def test_charts_that_nobody_serves_are_told_at_the_preview(site: Site, scheme: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    file = with_charts_from(site, f"{scheme}://{address}/charts")
    refused = site.project.pulumi("preview", "-s", site.project.stack, "--config-file", str(file), check=False)
    assert refused.code != 0
    assert address in refused.text
    assert "connection refused" in refused.text


def test_only_the_member_of_an_array_whose_worker_went_starts_again(site: Site) -> None:
    """C01."""
    array = site.submit("sleep 600", "--array=0-2", "--gpus=4", "--time=20")
    members = [f"{array}_{number}" for number in range(3)]
    for member in members:
        site.wait_for(member, "RUNNING")
    workers = {member: site.job(member)["NodeList"] for member in members}
    (alone,) = [member for member, worker in workers.items() if list(workers.values()).count(worker) == 1]
    site.kubectl("-n", "slurm", "delete", "pod", workers[alone], "--wait=false")
    until(lambda: site.job(alone).get("Restarts") == "1", 120, "the member's restart")
    site.wait_for(alone, "RUNNING", 120)
    for member in members:
        job = site.job(member)
        assert (job["JobState"], job["Restarts"]) == ("RUNNING", "1" if member == alone else "0"), job
    site.slurm("scancel", array)


def test_workers_that_swap_their_addresses_get_the_jobs_that_are_theirs(site: Site) -> None:
    """C02: each name comes back under the address that the other had, and nobody reconfigures anything."""
    until(lambda: all(state.startswith("IDLE") for state in site.states().values()), 60, "idle workers")
    before = places(site)
    host = before["train-0"][0]
    job = site.submit(
        "srun bash -c 'echo $(hostname) $(hostname -I)' > first.txt; sleep $((600 * (1 - SLURM_RESTART_COUNT)))\n"
        "srun bash -c 'echo $(hostname) $(hostname -I)' > swapped.txt",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gpus-per-node=8",
        "--time=20",
    )
    site.wait_for(job, "RUNNING")
    site.kubectl("cordon", host)
    # It waits for a place, and takes that of the other one as soon as this goes.
    site.kubectl("-n", "slurm", "delete", "pod", "train-0")
    site.kubectl("-n", "slurm", "delete", "pod", "train-1")
    until(lambda: places(site).get("train-0") == before["train-1"], 60, "train-0 in train-1's place")
    site.kubectl("uncordon", host)
    until(lambda: places(site).get("train-1") == before["train-0"], 60, "train-1 in train-0's place")
    done = site.wait_for(job, "COMPLETED", 120)
    assert done["Restarts"] == "1"
    lines = site.shell("cat /home/ada/swapped.txt", pod=("train-0", "slurmd")).splitlines()
    assert dict(line.split() for line in lines) == {
        "train-0": before["train-1"][1],
        "train-1": before["train-0"][1],
    }


def places(site: Site) -> dict[str, tuple[str, str]]:
    """Node and address of each worker that runs."""
    path = "{range .items[*]}{.metadata.name} {.spec.nodeName} {.status.podIP}{'\\n'}{end}"
    pods = site.kubectl(
        "-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=slurmd", "-o", f"jsonpath={path}"
    ).out
    rows = [line.split() for line in pods.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def test_charts_that_never_come_are_told_with_their_address(silent: list[Silent]) -> None:
    """Helm's own limits: 75 s for a registry (six handshakes), 130 s for a repository."""
    for each in silent:
        out = ended(each.process, 150)
        assert time.monotonic() - each.began < 180
        assert each.process.returncode != 0
        assert each.address in out
        assert "timeout" in out.lower()


def test_a_dead_api_server_never_keeps_what_is_paid_for(site: Site) -> None:
    """The Service of the login nodes waits for its load balancer to go; one line gives that up, and nothing is left."""
    project, cloud = site.project, site.project.cloud
    assert balancers(cloud)
    cloud.admin("PATCH", "/settings", {"watch_seconds": 0})
    servers = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "kube-apiserver" and str(cloud.state) in " ".join(process.info["cmdline"] or [])
    ]
    assert servers
    processes.kill(*servers)
    stuck = project.destroy(check=False)
    assert stuck.code != 0
    assert "cluster is unreachable" in stuck.text
    assert "PULUMI_K8S_DELETE_UNREACHABLE" in stuck.text
    assert leftovers(cloud)["/kubernetes/clusters"] == ["trouble-cluster"]
    assert "\nPULUMI_K8S_DELETE_UNREACHABLE=true pulumi destroy --yes --stack <stack>\n" in RUNBOOK.read_text()
    project.variables["PULUMI_K8S_DELETE_UNREACHABLE"] = "true"
    project.destroy()
    assert (leftovers(cloud), balancers(cloud), project.resources()) == ({}, [], [])


def balancers(cloud: Cloud) -> list[str]:
    """The project's load balancers."""
    return [one["name"] for one in cloud.items("/networking/load-balancers")]
