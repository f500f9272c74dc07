"""The whole life of the dev stack: up, look, change, replace, destroy; judged by the cloud and its API server."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests import processes
from tests.harness import Cloud, Json, Project, changes, execute, leftovers
from tests.integration.conftest import NewProject
from tools.toolchain import binary

pytestmark = pytest.mark.integration

TRAIN = "platform-pools-train"
SYSTEM = "platform-pools-system"
CLUSTER = "platform-cluster-cmk"
PEOPLE = {"viewers": ["engineers"], "oidc": {"issuerUrl": "https://login.example.com", "clientId": "gpu-platform"}}


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Generator[Project]:
    """The dev stack with a group of viewers, up; taken down at the end, when nothing may be left."""
    project = new_project("life")
    project.use_settings("dev", {"cluster": PEOPLE})
    project.up()
    yield project
    project.destroy()
    assert leftovers(project.cloud) == {}
    assert project.resources() == []


def kubectl(project: Project, *arguments: str) -> Json:
    """What the stack's own kubeconfig shows."""
    file = project.folder / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(project.outputs("--show-secrets")["kubeconfig"])
    command = [str(binary("kubectl")), "--kubeconfig", str(file), *arguments, "-o", "json"]
    result = execute(command, project.folder, os.environ, 60)
    assert result.code == 0, result.text
    return cast(Json, json.loads(result.out))


def pool(project: Project, key: str) -> Json:
    """A pool as the API tells it."""
    name = f"{project.stack}-{key}"
    return next(one for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == name)


def test_up_makes_what_was_declared_and_tells_it(project: Project) -> None:
    outputs = project.outputs()
    assert outputs["gpuTotals"] == {"h100-80gb-sxm-ib.8x": {"min": 16, "max": 16}}
    assert outputs["poolIds"]["train"] == pool(project, "train")["id"]
    assert outputs["kubeconfig"] == "[secret]"
    nodes = kubectl(project, "get", "nodes")["items"]
    gpus = [node["status"]["allocatable"].get("nvidia.com/gpu", "0") for node in nodes]
    assert sorted(gpus) == ["0", "0", "8", "8"]
    assert kubectl(project, "get", "clusterrolebinding", "gpuplatform-grant-view")["subjects"][0]["name"] == "engineers"


def test_another_preview_shows_no_change(project: Project) -> None:
    project.cloud.forget_requests()
    assert changes(project.preview("--expect-no-changes")) == {}
    assert {one["method"] for one in project.cloud.requests()} <= {"GET"}


def test_a_refresh_shows_no_change(project: Project) -> None:
    project.pulumi("refresh", "--preview-only", "--expect-no-changes", "-s", project.stack)
    project.pulumi("preview", "--refresh", "--expect-no-changes", "-s", project.stack)


def test_every_issue_is_explicitly_off(project: Project) -> None:
    cluster = project.outputs()["clusterId"]
    configuration = project.cloud.api("GET", f"/kubernetes/clusters/{cluster}/autoclusters/config")
    assert configuration["remediation_configs"]
    assert {row.get("user_override") for row in configuration["remediation_configs"]} == {"OFF"}
    assert {row["effective_action"] for row in configuration["remediation_configs"]} == {"OFF"}


def test_scaling_a_pool_up_changes_its_count_alone(project: Project) -> None:
    project.change_settings({"nodePools": {"train": {"count": 3}}})
    digest = project.preview()
    assert changes(digest) == {"update": [TRAIN]}
    (step,) = [step for step in digest["steps"] if step["op"] == "update"]
    assert {"count"} <= set(step["detailedDiff"]) <= {"count", "minCount"}
    project.cloud.forget_requests()
    project.up()
    (request,) = project.cloud.requests("PATCH")
    assert request["body"] == {"count": 3}
    assert len(pool(project, "train")["instance_ids"]) == 3
    assert len(kubectl(project, "get", "nodes")["items"]) == 5


def test_turning_one_remediation_on_is_a_one_line_diff(project: Project) -> None:
    project.change_settings({"autoClusters": {"actions": {"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}}})
    digest = project.preview()
    assert changes(digest) == {"update": ["platform-autoclusters-config"]}
    (step,) = [step for step in digest["steps"] if step["op"] == "update"]
    assert len(step["detailedDiff"]) == 1
    project.cloud.forget_requests()
    project.up()
    (request,) = [one for one in project.cloud.requests() if one["method"] not in ("GET", "HEAD")]
    assert request["body"] == {
        "set_remediation_overrides": [{"issue_name": "GPU_FELL_OFF_THE_BUS", "action": "REPLACE_NODE"}]
    }


def test_an_issue_that_appears_later_is_drift_and_is_turned_off(project: Project) -> None:
    issue = {"issue_name": "XID_777", "default_action": "REPLACE_NODE"}
    project.cloud.admin("PUT", "/autoclusters/issues", issue)
    assert changes(project.preview("--refresh"))["update"] == ["platform-autoclusters-config"]
    project.up("--refresh")
    cluster = project.outputs()["clusterId"]
    rows = project.cloud.api("GET", f"/kubernetes/clusters/{cluster}/autoclusters/config")["remediation_configs"]
    (row,) = [row for row in rows if row["issue_name"] == "XID_777"]
    assert row["user_override"] == "OFF"


@pytest.mark.parametrize("write_only", ["sshPublicKey", "transportPartitionId"])
def test_a_write_only_property_replaces_the_pool_once(project: Project, write_only: str) -> None:
    if write_only == "sshPublicKey":
        key, value = "system", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample team"
    else:
        network = project.cloud.items("/networking/ib-networks")[0]["id"]
        body = {"name": "life-by-hand", "ib_network_id": network}
        key, value = "train", project.cloud.api("POST", "/networking/ib-partitions", body)["id"]
    before = pool(project, key)["id"]
    project.change_settings({"nodePools": {key: {write_only: value}}})
    project.cloud.forget_requests()
    project.up()
    sent = [one["method"] for one in project.cloud.requests(path="/kubernetes/nodepools")]
    assert [method for method in sent if method != "GET"] == ["DELETE", "POST"]
    assert pool(project, key)["id"] != before
    assert changes(project.preview()) == {}
    if write_only == "transportPartitionId":
        project.change_settings({"nodePools": {key: {write_only: None}}})
        project.up()
        project.cloud.api("DELETE", f"/networking/ib-partitions/{value}")


def test_replacing_the_cluster_moves_every_object(project: Project) -> None:
    before = project.outputs()["clusterId"]
    project.change_settings({"cluster": {"nodeCidrMaskSize": 25}})
    project.up()
    after = project.outputs()["clusterId"]
    assert after != before
    assert [one["id"] for one in project.cloud.items("/kubernetes/clusters")] == [after]
    assert kubectl(project, "get", "clusterrolebinding", "gpuplatform-grant-view")["subjects"][0]["name"] == "engineers"
    assert len(kubectl(project, "get", "nodes")["items"]) == 5
    assert changes(project.preview("--refresh")) == {}


def test_a_changed_cluster_version_is_refused_with_the_way_out(project: Project) -> None:
    kept = project.stack_file.read_text()
    project.change_settings({"cluster": {"version": "1.33.4-cmk.73"}})
    project.cloud.forget_requests()
    result = project.pulumi("preview", "-s", project.stack, check=False)
    assert result.code != 0
    assert "1.33.4-cmk.73" in result.text
    assert "Traceback" not in result.text
    assert {one["method"] for one in project.cloud.requests()} <= {"GET"}
    project.stack_file.write_text(kept)


def test_lowering_a_count_that_would_leave_paid_vms_is_refused(project: Project) -> None:
    kept = project.stack_file.read_text()
    project.change_settings({"nodePools": {"train": {"count": 2}}})
    result = project.pulumi("preview", "-s", project.stack, check=False)
    assert result.code != 0
    assert "leaveVmsOnScaleDown" in result.text
    project.stack_file.write_text(kept)


def test_an_output_is_readable_through_a_stack_reference(project: Project, folder: Path) -> None:
    reader = Project(
        folder / "reader", project.cloud, "reader", {"PULUMI_BACKEND_URL": project.environment()["PULUMI_BACKEND_URL"]}
    )
    content = yaml.safe_load((reader.folder / "Pulumi.yaml").read_text())
    (reader.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "reader", "runtime": content["runtime"]}))
    (reader.folder / "__main__.py").write_text(
        "import pulumi\n"
        "platform = pulumi.StackReference('organization/crusoe-gpu-platform/life')\n"
        "for name in ('clusterId', 'poolIds', 'gpuTotals', 'kubeconfig', 'autoClusters'):\n"
        "    pulumi.export(name, platform.require_output(name))\n"
    )
    reader.init()
    reader.up()
    assert reader.outputs() == {name: project.outputs()[name] for name in reader.outputs()}
    assert reader.outputs()["kubeconfig"] == "[secret]"
    reader.destroy()


def test_everything_listens_on_the_loopback_address_only(project: Project) -> None:
    listening = processes.listening(processes.mentioning(project.cloud.state))
    assert {"etcd", "kube-apiserver"} <= {name for name, _, _ in listening}
    assert len(listening) > 4
    assert [entry for entry in listening if not entry[1].startswith("127.") and entry[1] != "::1"] == []


def test_the_cloud_survives_kill_9_and_the_stack_goes_on(project: Project) -> None:
    server, *_ = processes.family(project.cloud.status()["pid"])
    processes.kill(server)
    project.cloud.up()
    project.pulumi("refresh", "--preview-only", "--expect-no-changes", "-s", project.stack)
    assert len(kubectl(project, "get", "nodes")["items"]) == 5


def test_destroy_works_with_the_api_server_dead(new_project: NewProject, cloud: Cloud) -> None:
    project = new_project("dead")
    project.use_settings("dev", {"cluster": PEOPLE, "nodePools": {"train": None}, "network": {"infiniband": None}})
    project.up()
    address = yaml.safe_load(project.outputs("--show-secrets")["kubeconfig"])["clusters"][0]["cluster"]["server"]
    port = int(address.rsplit(":", 1)[1])
    (server,) = [
        one
        for one in processes.mentioning(cloud.state)
        if port in [found for _, _, found in processes.listening([one])]
    ]
    watched = cloud.admin("GET", "/settings")["watch_seconds"]
    # The cloud would start it again.
    cloud.admin("PATCH", "/settings", {"watch_seconds": 0})
    try:
        processes.kill(server)
        project.destroy()
    finally:
        cloud.admin("PATCH", "/settings", {"watch_seconds": watched})
    assert project.resources() == []
    assert {name for names in leftovers(cloud).values() for name in names if name.startswith("dead-")} == set()
