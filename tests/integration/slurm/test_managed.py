"""Crusoe Managed Slurm through the real CLI: up, nothing to change, people, more nodes, refusals, down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cloud, Json, Project, changes, execute, leftovers
from tests.integration.slurm.conftest import KEY
from tools import places

pytestmark = pytest.mark.integration

MANAGED: Json = {
    "mode": "managed",
    "login": {"cidrs": ["203.0.113.0/24"], "replicas": 1, "rootKeys": [KEY]},
    "people": {"users": {"ada": {"keys": [KEY], "groups": ["vision"]}}, "groups": {"vision": {}}},
    "managed": {"nodeSets": {"train": {"type": "h100-80gb-sxm-ib.8x", "count": 1}}},
}


@pytest.fixture(scope="module")
def project(cloud: Cloud, folder: Path) -> Project:
    made = Project(folder / "managed", cloud, "managed")
    made.init()
    made.use_settings("dev", {"slurm": MANAGED, "nodePools": {"train": None}})
    made.up()
    return made


def inside(project: Project, *arguments: str) -> Any:
    """Objects in the cluster behind the Slurm cluster, in its namespace."""
    kubeconfig = project.folder / "kubeconfig-of-slurm"
    kubeconfig.write_text(project.outputs("--show-secrets")["slurmKubeconfig"])
    command = [str(places.BIN / "kubectl"), "--kubeconfig", str(kubeconfig), "-n", "slurm", *arguments, "-o", "json"]
    result = execute(command, project.folder, project.environment())
    assert result.code == 0, result.text
    return json.loads(result.out)


def node_set(project: Project) -> Json:
    (cluster,) = project.cloud.items("/slurm/clusters")
    (found,) = project.cloud.items(f"/slurm/{cluster['id']}/nodesets")
    return found


def test_up_says_where_to_log_in(project: Project) -> None:
    (cluster,) = project.cloud.items("/slurm/clusters")
    assert (cluster["name"], cluster["state"]) == ("managed-slurm", "RUNNING")
    assert project.outputs()["loginHost"] == cluster["login_node_endpoint"]
    assert node_set(project)["count"] == 1


def test_login_is_closed_to_all_but_the_named_networks(project: Project) -> None:
    (cluster,) = inside(project, "get", "slurmclusters")["items"]
    assert cluster["spec"]["loginSet"]["firewallRuleSourceRanges"] == ["203.0.113.0/24"]


def test_people_are_there_without_sudo(project: Project) -> None:
    (ada,) = inside(project, "get", "slurmusers")["items"]
    assert (ada["metadata"]["name"], ada["spec"]["disableSudo"]) == ("ada", True)
    (vision,) = inside(project, "get", "slurmusergroups")["items"]
    assert vision["spec"]["users"] == ["ada"]


def test_autoclusters_of_its_cluster_is_off(project: Project) -> None:
    (behind,) = [one for one in project.cloud.items("/kubernetes/clusters") if one["name"] == "managed-slurm"]
    rows = project.cloud.api("GET", f"/kubernetes/clusters/{behind['id']}/autoclusters/config")["remediation_configs"]
    assert rows
    assert {row.get("user_override") for row in rows} == {"OFF"}


def test_a_second_preview_and_a_refresh_show_nothing(project: Project) -> None:
    assert changes(project.preview("--refresh")) == {}


def test_more_nodes_are_one_change(project: Project) -> None:
    project.change_settings({"slurm": {"managed": {"nodeSets": {"train": {"count": 2}}}}})
    assert changes(project.preview()) == {"update": ["platform-slurm-managed-nodes-train"]}
    project.up()
    assert node_set(project)["count"] == 2


def test_fewer_nodes_need_consent(project: Project) -> None:
    project.change_settings({"slurm": {"managed": {"nodeSets": {"train": {"count": 1}}}}})
    refused = project.pulumi("preview", "-s", project.stack, check=False)
    assert refused.code != 0
    assert "allowScaleDown" in refused.text
    assert node_set(project)["count"] == 2
    project.change_settings({"slurm": {"managed": {"nodeSets": {"train": {"allowScaleDown": True}}}}})
    project.up()
    assert node_set(project)["count"] == 1


def test_what_crusoe_can_not_change_is_refused_in_the_preview(project: Project) -> None:
    project.change_settings({"slurm": {"managed": {"homeSize": "20Ti"}}})
    project.cloud.forget_requests()
    refused = project.pulumi("preview", "-s", project.stack, check=False)
    assert refused.code != 0
    assert "replaceOnChange" in refused.text
    assert {one["method"] for one in project.cloud.requests(path="/slurm/")} <= {"GET"}
    project.change_settings({"slurm": {"managed": {"homeSize": "10Ti"}}})
    assert changes(project.preview()) == {}


def test_destroy_leaves_nothing(project: Project) -> None:
    project.destroy()
    assert project.cloud.items("/slurm/clusters") == []
    assert leftovers(project.cloud) == {}
