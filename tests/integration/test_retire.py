"""How a protected node pool leaves: refused at once, drained and unprotected first, removed then."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Generator

import pytest

from tests.harness import Json, Project, changes, ended, until
from tests.integration.conftest import NewProject
from tools.toolchain import binary

pytestmark = pytest.mark.integration

STACK = "retire"
TRAIN = "platform-pools-train"
WORK = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: work, namespace: default}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: work}}}}
  template:
    metadata: {{labels: {{app: work}}}}
    spec:
      nodeSelector: {{crusoe.ai/nodepool.name: {STACK}-train}}
      containers: [{{name: work, image: work}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: work, namespace: default}}
spec: {{minAvailable: 3, selector: {{matchLabels: {{app: work}}}}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent, namespace: default}}
spec:
  selector: {{matchLabels: {{app: agent}}}}
  template:
    metadata: {{labels: {{app: agent}}}}
    spec:
      tolerations: [{{operator: Exists}}]
      containers: [{{name: agent, image: agent}}]
"""


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Generator[Project]:
    """A protected platform with work on its GPU pool."""
    project = new_project(STACK)
    project.use_settings("dev", {"protect": True})
    project.up()
    kubectl(project, "apply", "-f", "-", given=WORK)
    until(lambda: running(project, "work") == 3, 30, "work on the GPU pool")
    yield project
    project.change_settings({"protect": False})
    project.up()
    project.destroy()


def kubectl(project: Project, *arguments: str, given: str | None = None) -> str:
    file = project.folder / "kubeconfig"
    file.write_text(project.outputs("--show-secrets")["kubeconfig"])
    file.chmod(0o600)
    command = [str(binary("kubectl")), "--kubeconfig", str(file), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def items(project: Project, kind: str) -> list[Json]:
    return json.loads(kubectl(project, "get", kind, "-n", "default", "-o", "json"))["items"]


def running(project: Project, app: str) -> int:
    pods = [each for each in items(project, "pods") if each["metadata"]["labels"]["app"] == app]
    return sum(each["status"]["phase"] == "Running" for each in pods)


def cordoned(project: Project) -> set[str]:
    """Names of the pools whose nodes take no new pods."""
    nodes = [each for each in items(project, "nodes") if each["spec"].get("unschedulable")]
    return {each["metadata"]["labels"]["crusoe.ai/nodepool.name"] for each in nodes}


def test_a_protected_pool_can_not_be_taken_out_at_once(project: Project) -> None:
    before = project.stack_file.read_text()
    project.change_settings({"nodePools": {"train": None}})
    refused = project.pulumi("preview", "-s", STACK, check=False)
    assert refused.code != 0
    assert "protect" in refused.text
    project.stack_file.write_text(before)


def test_draining_keeps_to_disruption_budgets_and_ends_when_asked(project: Project) -> None:
    project.change_settings({"nodePools": {"train": {"retire": True}}})
    digest = project.preview()
    assert changes(digest) == {"update": [TRAIN]}
    (step,) = [each for each in digest["steps"] if each["op"] == "update"]
    assert list(step["detailedDiff"]) == ["drained"]

    process = project.start("up", "--yes", "--skip-preview", "-s", STACK)
    until(lambda: cordoned(project) == {f"{STACK}-train"}, 60, "cordon")
    assert running(project, "work") == 3
    process.send_signal(signal.SIGINT)
    told = ended(process, 30)
    assert process.returncode != 0
    assert "held by a disruption budget" in told
    assert running(project, "work") == 3


def test_the_next_up_goes_on_and_unprotects(project: Project) -> None:
    kubectl(project, "delete", "pdb", "work", "-n", "default")
    project.up()
    assert running(project, "work") == 0
    assert running(project, "agent") == 4
    assert cordoned(project) == {f"{STACK}-train"}
    (pool,) = [each for each in project.resources() if each["urn"].endswith(f"::{TRAIN}")]
    assert not pool.get("protect")
    assert changes(project.preview()) == {}


def test_it_can_be_undone(project: Project) -> None:
    project.change_settings({"nodePools": {"train": {"retire": False}}})
    project.up()
    assert cordoned(project) == set()
    until(lambda: running(project, "work") == 3, 30, "work on the GPU pool again")
    project.change_settings({"nodePools": {"train": {"retire": True}}})
    project.up()


def test_then_the_pool_is_removed(project: Project) -> None:
    project.change_settings({"nodePools": {"train": None}})
    assert changes(project.preview()) == {"delete": [TRAIN]}
    project.up()
    assert [each["name"] for each in project.cloud.items("/kubernetes/nodepools")] == [f"{STACK}-system"]
    assert len(items(project, "nodes")) == 2
