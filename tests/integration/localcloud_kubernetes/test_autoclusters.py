"""AutoClusters on a real control plane: what happens to a node whose GPU breaks, seen through kubectl and the API."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from localcloud.autoclusters import incidents
from localcloud.autoclusters.engine import autoclusters
from localcloud.autoclusters.nodes import CONDITION, OPT_OUT, REMEDIATION
from localcloud.cloud import Cloud
from localcloud.kubernetes import KwokControlPlane
from localcloud.kubernetes.actors import Actor
from localcloud.pools import POOL, VM
from tests.integration.localcloud_kubernetes.inhabited import Inhabited, cluster_with_nodes, inhabited
from tests.integration.localcloud_kubernetes.support import Live, processes_below, until
from tests.unit.actor.receiver import Receiver
from tools.toolchain import binary

pytestmark = pytest.mark.integration
Json = dict[str, Any]
TYPE = "l40s-48gb.10x"
HISTORY = "kubernetes/autocluster-operations"


class Town:
    """A cloud with one cluster of two GPU nodes, and a webhook that AutoClusters tells."""

    def __init__(self, cloud: Inhabited, cluster_id: str, receiver: Receiver) -> None:
        self.cloud = cloud
        self.cluster_id = cluster_id
        self.receiver = receiver
        self.live: Live = cloud.live(cluster_id)

    def admin(self, method: str, path: str, body: Json) -> Any:
        return self.cloud.wait(lambda: self.cloud._api.admin(method, path, body))  # pyright: ignore[reportPrivateUsage]  its signer has the token

    def action(self, xid: int, action: str) -> None:
        async def change() -> None:
            path = f"{{p}}/kubernetes/clusters/{self.cluster_id}/autoclusters/config"
            rows = [{"issue_name": f"XID_{xid}", "action": action}]
            await self.cloud._api.patch(path, {"set_remediation_overrides": rows})  # pyright: ignore[reportPrivateUsage]

        self.cloud.wait(change)

    def fault(self, node: str, xid: int = 79) -> None:
        self.receiver.got.clear()
        self.admin("POST", "gpu-faults", {"node": node, "xid": xid})

    def nodes(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.live.get("nodes")["items"]]

    def node(self, name: str) -> Json:
        return self.live.get("node", name)

    def pod(self, name: str, node: str, **labels: str) -> None:
        self.live.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {"app": name, **labels}},
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/main:1"}]},
            }
        )
        until(lambda: self.live.get("pod", name)["status"].get("phase") == "Running")

    def guard(self, name: str) -> None:
        """A disruption budget that lets the pod go never."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        self.live.create(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        )
        until(lambda: self.live.get("pdb", name).get("status", {}).get("expectedPods") == 1)

    def told(self) -> list[str]:
        return [each["type"].removeprefix("autoclusters.") for each in self.receiver.got]

    def phase(self, node: str) -> str:
        async def read() -> str:
            return next(each.phase for each in reversed(incidents.every(self.cloud.cloud)) if each.node == node)

        return self.cloud.wait(read)

    def history(self) -> list[tuple[str, str]]:
        return [(item["metadata"].get("issue_name", ""), item["state"]) for item in self.cloud.items(HISTORY)]

    def spares(self, count: int) -> None:
        self.admin("PUT", "capacities", {"vm_type": TYPE, "quantity": count, "location": "us-east1-a"})


def actors(cloud: Cloud) -> dict[str, Actor]:
    return {"autoclusters": autoclusters(cloud)}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    folder = tmp_path_factory.mktemp("repairs")
    yield folder
    KwokControlPlane(folder / "clusters", binary=binary).delete_all()
    assert processes_below(folder) == []


@pytest.fixture(scope="module")
def receiver() -> Generator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.end()


@pytest.fixture(scope="module")
def town(state: Path, receiver: Receiver) -> Generator[Town]:
    with inhabited(state, actors) as cloud:
        town = Town(cloud, cluster_with_nodes(cloud, {TYPE: 2}, ()), receiver)
        town.admin("PUT", "autoclusters/settings", {"detect": 0.2, "cordon": 0.5, "grace": 60, "webhook": receiver.url})
        town.spares(50)
        yield town


def test_a_node_with_a_broken_gpu_is_replaced_step_by_step(town: Town) -> None:
    first, second = town.nodes()
    town.pod("work", first)
    town.action(79, "REPLACE_NODE")
    town.fault(first)
    until(lambda: town.phase(first) == "replaced")
    until(lambda: town.told() == ["issue_detected", "remediation_started", "remediation_succeeded"])
    assert town.history()[-1:] == [("XID_79", "SUCCEEDED")]
    assert second in town.nodes()
    assert first not in town.nodes()
    assert len(town.nodes()) == 2
    assert "NotFound" in town.live.kubectl("get", "pod", "work", ok=False)
    assert all(each["node"] == first and each["issue_name"] == "XID_79" for each in town.receiver.got)


def test_an_action_that_is_off_is_told_and_no_more(town: Town) -> None:
    node, before = town.nodes()[0], town.history()
    town.action(48, "OFF")
    town.fault(node, 48)
    until(lambda: town.phase(node) == "off")
    until(lambda: town.told() == ["issue_detected"])
    found = town.node(node)
    assert not found["spec"].get("unschedulable")
    assert REMEDIATION not in found["metadata"]["annotations"]
    held = [each["reason"] for each in found["status"]["conditions"] if each["type"] == CONDITION]
    assert held == ["XID_48"], "the problem detector says it all the same"
    assert town.history() == before


def test_a_pod_with_the_label_keeps_its_node_which_stays_cordoned(town: Town) -> None:
    node, before = town.nodes()[0], town.history()
    town.pod("opted-out", node, **{OPT_OUT: "true"})
    town.pod("beside", node)
    town.fault(node)
    until(lambda: town.phase(node) == "opted-out")
    until(lambda: town.told() == ["issue_detected", "remediation_started", "remediation_skipped"])
    assert "opted-out" in town.receiver.got[-1]["message"]
    assert town.node(node)["spec"]["unschedulable"]
    assert town.live.get("pod", "beside")["status"]["phase"] == "Running"
    assert town.history() == before
    town.live.kubectl("delete", "pod", "opted-out", "beside", "--now")
    # A new fault of the same kind is a new repair.
    town.fault(node)
    until(lambda: town.phase(node) == "replaced")


def test_a_disruption_budget_holds_a_repair_up_for_the_grace_and_no_longer(town: Town) -> None:
    node = town.nodes()[0]
    town.pod("busy", node)
    town.guard("busy")
    town.admin("PUT", "autoclusters/settings", {"grace": 3})
    town.fault(node)
    until(lambda: town.phase(node) == "isolated")
    assert town.live.get("pod", "busy")["status"]["phase"] == "Running"
    until(lambda: town.phase(node) == "replaced")
    assert "NotFound" in town.live.kubectl("get", "pod", "busy", ok=False)
    town.admin("PUT", "autoclusters/settings", {"grace": 60})


def test_without_a_spare_it_fails_says_so_and_goes_on_once_there_is_one(town: Town) -> None:
    node = town.nodes()[0]
    town.spares(0)
    town.fault(node)
    until(lambda: town.phase(node) == "stalled")
    until(lambda: town.told()[-1:] == ["remediation_failed"])
    assert "insufficient capacity" in town.receiver.got[-1]["message"]
    assert town.history()[-1] == ("XID_79", "FAILED")
    assert len(town.nodes()) == 1
    town.spares(10)
    until(lambda: town.phase(node) == "replaced")
    assert town.history()[-2:] == [("XID_79", "FAILED"), ("XID_79", "SUCCEEDED")]
    assert len(town.nodes()) == 2


def test_a_kill_in_the_middle_of_a_repair_is_only_a_pause(tmp_path: Path, receiver: Receiver) -> None:
    """Killed while it waits for pods, with a notice that nobody took, and again with the new machine on its way."""
    try:
        with inhabited(tmp_path, actors) as cloud:
            town = Town(cloud, cluster_with_nodes(cloud, {TYPE: 1}, ()), receiver)
            nobody = "http://127.0.0.1:9/"
            town.admin("PUT", "autoclusters/settings", {"detect": 0, "webhook": nobody})
            town.action(79, "REPLACE_NODE")
            [node] = town.nodes()
            town.pod("busy", node)
            town.guard("busy")
            town.fault(node)
            until(lambda: town.phase(node) == "isolated")
        with inhabited(tmp_path, actors) as cloud:
            again = Town(cloud, town.cluster_id, receiver)
            assert again.phase(node) == "isolated"
            again.admin("PUT", "autoclusters/settings", {"webhook": receiver.url})
            again.live.kubectl("delete", "pdb", "busy")
            until(lambda: again.phase(node) == "replaced")
            until(lambda: again.told() == ["issue_detected", "remediation_started", "remediation_succeeded"])
            assert again.history() == [("XID_79", "SUCCEEDED")]
            assert len(again.nodes()) == 1
            vms = again.cloud.wait(lambda: _vms(again))
            assert vms == 1, "one machine for one node"
    finally:
        KwokControlPlane(tmp_path / "clusters", binary=binary).delete_all()


async def _vms(town: Town) -> int:
    [pool] = town.cloud.cloud.store.all(POOL)
    return len(town.cloud.cloud.store.all(VM, parent_id=pool.id))
