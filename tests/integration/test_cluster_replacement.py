"""A cluster is replaced and the update fails half way: the next one finishes it, with every object on the new one."""

from __future__ import annotations

import subprocess

import pytest

from tests.harness import Cloud, Project, changes
from tests.integration.conftest import NewProject
from tools.toolchain import binary

pytestmark = pytest.mark.integration

PEOPLE = {"viewers": ["engineers"], "oidc": {"issuerUrl": "https://login.example.com", "clientId": "gpu"}}
INSIDE = {"platform-cluster-grant-view", "platform-cluster-grant-viewer", "platform-cluster-role-viewer"}
MOVED = {"serviceClusterIpRange": "10.237.0.0/16"}


def roles(project: Project) -> list[str]:
    """The platform's roles as the API server of the stack's kubeconfig has them."""
    file = project.folder / "kubeconfig"
    file.write_text(project.outputs("--show-secrets")["kubeconfig"])
    file.chmod(0o600)
    command = [str(binary("kubectl")), "--kubeconfig", str(file), "get", "clusterrolebindings", "-o", "name"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name.partition("/")[2] for name in found if "gpuplatform" in name)


@pytest.mark.parametrize(("stack", "people"), [("kept", PEOPLE), ("dropped", {})])
def test_a_replacement_that_fails_is_finished_by_the_next_up(
    stack: str, people: dict[str, object], new_project: NewProject, cloud: Cloud
) -> None:
    project = new_project(stack)
    project.use_settings("dev", {"cluster": PEOPLE})
    project.up()
    before = project.outputs()["clusterId"]

    project.use_settings("dev", {"cluster": {**people, **MOVED}})
    planned = changes(project.preview())
    assert planned["update"] == ["platform-cluster-kubernetes"]
    assert INSIDE & set(planned["replace"]) == (INSIDE if people else set())
    cloud.fault("POST .../nodepools", "fail-operation", times=2)
    failed = project.up(check=False)
    assert failed.code != 0
    assert "node pool" in failed.text.lower()

    project.up()
    assert project.outputs()["clusterId"] != before
    assert roles(project) == (["gpuplatform-grant-view", "gpuplatform-grant-viewer"] if people else [])
    assert changes(project.preview()) == {}
    project.destroy()
    assert [each for each in cloud.items("/kubernetes/clusters") if each["name"].startswith(stack)] == []
