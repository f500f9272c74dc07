"""Slurm's kinds over gRPC and real HTTP: their lives, what is refused in a preview, and what is never drift."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from crusoe.provider.values import UNKNOWN
from tests.provider.engine import CheckFailedError, FailedError, Plugin, Resource, running_plugin
from tests.provider.slurm_api import ENVIRONMENT, PROJECT, SlurmCloud, slurm_cloud

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYzZmFrZWtleWZvcnRlc3RzMDEyMzQ1Njc4OTAx ada@example.com"
LAB: dict[str, Any] = {"name": "lab", "location": "us-east1-a", "rootSshPublicKeys": [KEY]}


@pytest.fixture
def cloud(tmp_path: Path) -> Generator[SlurmCloud]:
    with slurm_cloud(tmp_path) as running:
        yield running


@pytest.fixture
def plugin(cloud: SlurmCloud) -> Generator[Plugin]:
    with running_plugin(ENVIRONMENT) as (running, _):
        running.configure(cloud.endpoint, PROJECT)
        yield running


@pytest.fixture
def lab(plugin: Plugin) -> Resource:
    """A Slurm cluster."""
    resource = plugin.resource("SlurmCluster", "lab")
    resource.up(LAB)
    return resource


def test_a_cluster(cloud: SlurmCloud, plugin: Plugin) -> None:
    lab = plugin.resource("SlurmCluster", "lab")
    operation, _, planned = lab.preview(LAB)
    assert operation == "create"
    assert planned["kubeconfig"] is UNKNOWN
    lab.up(LAB)
    (behind,) = cloud.api.kubernetes
    assert lab.outputs["kubernetesClusterId"] == behind
    assert lab.outputs["loginHost"] == "203.0.113.7"
    assert lab.secrets == {"kubeconfig"}
    assert any("open to every address" in told for told in plugin.log.warnings)
    assert lab.preview(LAB)[:2] == ("same", {})
    assert lab.refresh() == {}
    assert lab.preview(LAB)[:2] == ("same", {})

    again = plugin.resource("SlurmCluster", "imported")
    assert again.import_(lab.id)
    assert again.preview(LAB)[:2] == ("same", {})
    assert again.outputs["kubernetesClusterId"] == behind

    assert lab.refresh() == {}
    lab.destroy()
    assert not cloud.api.slurm
    assert [method for method, path in cloud.api.requests if path.startswith("slurm")] == ["POST", "DELETE"]


def test_a_clusters_change_is_refused_in_the_preview_or_replaces_with_consent(
    cloud: SlurmCloud, plugin: Plugin, lab: Resource
) -> None:
    more = {**LAB, "loginReplicas": 2}
    with pytest.raises(FailedError, match=r"can't change loginReplicas of a Slurm cluster.*replaceOnChange: true"):
        lab.preview(more)
    consenting = {**more, "replaceOnChange": True}
    assert lab.preview({**LAB, "replaceOnChange": True})[:2] == ("same", {}), "consent alone changes nothing"
    operation, shown, _ = lab.preview(consenting)
    assert (operation, shown) == ("replace (delete first)", {"loginReplicas": "update_replace"})
    assert "deletes it first, with its shared /home, its queue" in plugin.log.warnings[-1]
    before = lab.id
    cloud.api.requests.clear()
    assert lab.up(consenting) == "replace"
    assert lab.id != before
    assert [method for method, path in cloud.api.requests if path.startswith("slurm")] == ["DELETE", "POST"]


def test_a_cluster_that_fails_tells_its_issues_and_is_recorded(cloud: SlurmCloud, plugin: Plugin) -> None:
    cloud.api.fails = [{"code": "subnet_full", "message": "no address is free"}]
    lab = plugin.resource("SlurmCluster", "lab")
    with pytest.raises(FailedError, match=r"CREATE_FAILED. Crusoe says subnet_full: no address is free") as error:
        lab.up(LAB)
    assert error.value.partial is not None
    assert lab.id in cloud.api.slurm
    lab.destroy()
    assert not cloud.api.slurm


def test_wrong_inputs_are_told_all_at_once(plugin: Plugin) -> None:
    with pytest.raises(CheckFailedError) as error:
        plugin.resource("SlurmCluster").preview({"name": "Lab", "location": "x", "homeVolumeSize": "1GiB"})
    assert set(error.value.failures) == {"name", "rootSshPublicKeys", "homeVolumeSize"}


def test_a_node_set(cloud: SlurmCloud, plugin: Plugin, lab: Resource) -> None:
    inputs = {"slurmClusterId": lab.id, "name": "train", "type": "a100-80gb.8x", "count": 3}
    train = plugin.resource("SlurmNodeSet", "train")
    assert train.preview(inputs)[0] == "create"
    train.up(inputs)
    (own_id,) = cloud.api.sets[lab.id]
    assert train.id == f"{lab.id}/{own_id}"
    assert (train.outputs["count"], train.outputs["readyCount"]) == (3, 3)
    assert train.preview(inputs)[:2] == ("same", {})

    cloud.api.sets[lab.id][own_id].update(count=1, state="UNHEALTHY")
    assert train.refresh() == {}, "nodes that are being repaired are no drift"
    assert (train.outputs["count"], train.outputs["readyCount"]) == (3, 1)
    assert train.preview(inputs)[:2] == ("same", {})
    cloud.api.sets[lab.id][own_id].update(count=3, state="RUNNING")

    operation, shown, _ = train.preview({**inputs, "count": 4})
    assert (operation, shown) == ("update", {"count": "update"})
    train.up({**inputs, "count": 4})
    assert train.outputs["readyCount"] == 4
    with pytest.raises(FailedError, match=r"2 of 4 nodes would go.*allowScaleDown: true"):
        train.preview({**inputs, "count": 2})
    fewer = {**inputs, "count": 2, "allowScaleDown": True}
    train.up(fewer)
    assert (cloud.api.wanted[own_id], train.outputs["readyCount"]) == (2, 2)

    again = plugin.resource("SlurmNodeSet", "imported")
    assert again.import_(train.id)
    assert again.preview(fewer)[:2] == ("same", {})

    cloud.api.requests.clear()
    other = {**fewer, "type": "a100.8x"}
    assert train.preview(other)[0] == "replace (delete first)"
    assert "deletes its nodes first" in plugin.log.warnings[-1]
    train.up(other)
    assert [method for method, _ in cloud.api.requests] == ["DELETE", "POST"]
    train.destroy()
    assert not cloud.api.sets[lab.id]


def test_a_node_set_is_gone_with_its_cluster(cloud: SlurmCloud, plugin: Plugin, lab: Resource) -> None:
    train = plugin.resource("SlurmNodeSet", "train")
    train.up({"slurmClusterId": lab.id, "name": "train", "type": "a100-80gb.8x", "count": 1})
    cloud.api.slurm.clear()
    object_id = train.id
    assert train.refresh() == {"": "delete"}
    train.id = object_id
    train.destroy()


def test_workers_and_the_control_part(cloud: SlurmCloud, plugin: Plugin, lab: Resource) -> None:
    cluster_id = lab.outputs["kubernetesClusterId"]
    hook = {"kind": "Webhook", "namespace": "slinky", "name": "slurm-operator-webhook"}
    parts = [hook, {"kind": "Controller", "namespace": "slurm", "name": "slurm"}]
    inputs = {"clusterId": cluster_id, "waitFor": parts, "waitSeconds": 1}
    ready = plugin.resource("SlurmReady", "ready")
    cloud.cluster.ready("deployments", "slurm-operator-webhook", namespace="slinky")
    cloud.cluster.webhook = "absent"
    with pytest.raises(FailedError, match=r"no webhook refuses.*Controller slurm/slurm.*it does not exist") as error:
        ready.up(inputs)
    assert error.value.partial is not None, "recorded, so that the next run waits again"
    cloud.cluster.webhook = "answers"
    cloud.cluster.ready("statefulsets", "slurm-controller")
    assert ready.up(inputs) == "update"
    assert ready.preview(inputs)[:2] == ("same", {})
    assert ready.refresh() == {}

    cloud.cluster.node_set("train", 2)
    workers = plugin.resource("SlurmWorkers", "train")
    asked = {"clusterId": cluster_id, "nodeSet": "train", "replicas": 2, "drainSeconds": 2}
    workers.up(asked)
    assert workers.id == f"{cluster_id}/slurm/train"
    assert workers.outputs["readyWorkers"] == 2
    assert workers.preview(asked)[:2] == ("same", {})
    assert workers.refresh() == {}
    operation, shown, _ = workers.preview({**asked, "triggers": {"generation": "2"}})
    assert (operation, set(shown)) == ("update", {"triggers"})
    again = plugin.resource("SlurmWorkers", "imported")
    assert again.import_(workers.id)
    assert again.preview(asked)[:2] == ("same", {})

    cloud.cluster.busy = {"train-0"}
    with pytest.raises(FailedError, match="jobs run on train-0, which take no new ones"):
        workers.destroy()
    cloud.cluster.busy.clear()
    workers.destroy()
    assert not cloud.cluster.pods
    ready.destroy()
