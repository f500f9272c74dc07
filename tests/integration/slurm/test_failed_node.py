"""A node fails while jobs run: the actor in its own pods, against the API server and slurmrestd as in a cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.harness import Cloud, Project, until
from tests.integration.slurm.conftest import KEY, Site

pytestmark = pytest.mark.integration

MARK = "crusoe.ai/remediation"
ACTOR = "app.kubernetes.io/name=slurm-actor"
LOOK_SECONDS = 1
SETTINGS = {"people": {"users": {"ada": {"uid": 10001, "keys": [KEY]}}}, "topology": {"kind": "tree"}}
LONG = ("--gpus=1", "--time=10", "--requeue")


@pytest.fixture(scope="module")
def site(cloud: Cloud, folder: Path) -> Site:
    """The dev stack with a topology, up."""
    project = Project(folder / "site", cloud, "site")
    project.init()
    project.use_settings("dev", {"slurm": SETTINGS}, slurm=True)
    project.up()
    return Site(project)


def running(site: Site) -> tuple[str, str, str]:
    """A job that runs, its worker, and the Kubernetes node beneath."""
    job = site.submit("sleep 600", *LONG)
    worker = site.wait_for(job, "RUNNING")["NodeList"]
    node = site.kubectl("-n", "slurm", "get", "pod", worker, "-o", "jsonpath={.spec.nodeName}").out
    return job, worker, node


def heal(site: Site, node: str, worker: str) -> None:
    """The node is whole again."""
    site.kubectl("annotate", "node", node, f"{MARK}-")
    site.kubectl("uncordon", node)
    until(lambda: site.states()[worker].split("+")[0] == "IDLE" and "DRAIN" not in site.states()[worker], 30, "idle")


def placed(site: Site) -> bool:
    """Whether Slurm knows where every worker is; those that began before the actor are told of later."""
    shown = site.slurm("scontrol", "show", "nodes", "--oneliner").out.splitlines()
    return sum("Topology=fabric:unknown" in line for line in shown) == 2


def test_a_job_over_two_nodes_runs_with_a_topology(site: Site) -> None:
    until(lambda: placed(site), 30, "the places of the workers")
    job = site.submit("srun hostname > names.txt", "--nodes=2", "--gpus-per-node=8", "--time=5")
    site.wait_for(job, "COMPLETED")
    assert set(site.shell("cat /home/ada/names.txt", pod=("train-0", "slurmd")).split()) == {"train-0", "train-1"}


def test_the_actors_pods_are_programs_of_which_one_leads(site: Site) -> None:
    logs = site.kubectl("-n", "slurm", "logs", "-l", ACTOR, "--tail=-1").out
    said = [json.loads(line) for line in logs.splitlines() if line.startswith("{")]
    assert len({each["me"] for each in said if each["action"] == "Lead"}) == 1, logs


def test_the_job_of_a_failed_node_runs_again_on_another(site: Site) -> None:
    job, worker, node = running(site)
    site.kubectl("annotate", "node", node, f"{MARK}=XID_79")
    until(lambda: site.job(job).get("Restarts") == "1", 30, "the requeue")
    assert site.wait_for(job, "RUNNING")["NodeList"] in {"train-0", "train-1"} - {worker}
    assert "DRAIN" in site.states()[worker]
    assert f"Reason=slurm-operator: {MARK}=XID_79" in site.slurm("scontrol", "show", "node", worker).out
    assert site.kubectl("get", "node", node, "-o", "jsonpath={.spec.unschedulable}").out == "true"
    site.slurm("scancel", job)
    heal(site, node, worker)


def test_without_the_actor_the_job_runs_on(site: Site) -> None:
    site.kubectl("-n", "slurm", "scale", "deployment/slurm-actor", "--replicas=0")
    site.kubectl("-n", "slurm", "wait", "--for=delete", "pods", "-l", ACTOR, "--timeout=60s")
    job, worker, node = running(site)
    site.kubectl("annotate", "node", node, f"{MARK}=XID_48")
    site.kubectl("cordon", node)
    until(lambda: "DRAIN" in site.states()[worker], 30, "the operator's drain")
    time.sleep(3 * LOOK_SECONDS)
    found = site.job(job)
    assert (found["JobState"], found["Restarts"], found["NodeList"]) == ("RUNNING", "0", worker)
