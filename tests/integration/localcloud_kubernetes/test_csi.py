"""Volumes on a real control plane: claims become disks of the inventory, and disks follow pods and claims."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from localcloud.in_cluster.volumes import volumes
from localcloud.kubernetes import KwokControlPlane
from tests.integration.localcloud_kubernetes.inhabited import Inhabited, cluster_with_nodes, inhabited
from tests.integration.localcloud_kubernetes.support import Live, processes_below, until
from tests.unit.localcloud.conftest import PROJECT
from tools.toolchain import binary

pytestmark = pytest.mark.integration
Json = dict[str, Any]
WHOLE, SLICE = "c1a.8x", "l40s-48gb.1x"


def storage_class(name: str, driver: str, **more: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": driver,
        "allowVolumeExpansion": True,
        **more,
    }


CLASSES = [
    storage_class("ssd", "ssd.csi.crusoe.ai", volumeBindingMode="WaitForFirstConsumer"),
    storage_class("ssd-now", "ssd.csi.crusoe.ai"),
    storage_class("ssd-kept", "ssd.csi.crusoe.ai", reclaimPolicy="Retain"),
    storage_class("fs", "fs.csi.crusoe.ai", volumeBindingMode="WaitForFirstConsumer"),
    storage_class("fs-now", "fs.csi.crusoe.ai"),
]


class Town:
    """A cloud with one cluster."""

    def __init__(self, cloud: Inhabited, cluster_id: str) -> None:
        self.cloud = cloud
        self.cluster_id = cluster_id
        self.live: Live = cloud.live(cluster_id)

    def claim(self, name: str, storage_class: str, size: str, *, mode: str = "ReadWriteOnce", **spec: Any) -> None:
        self.live.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "spec": {
                    "storageClassName": storage_class,
                    "accessModes": [mode],
                    "resources": {"requests": {"storage": size}},
                    **spec,
                },
            }
        )

    def pod(self, name: str, *claims: str, pool: str = "c1a-8x", node: str | None = None) -> None:
        chosen = {"kubernetes.io/hostname": node} if node else {"crusoe.ai/nodepool.name": pool}
        self.live.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {
                    "nodeSelector": chosen,
                    "containers": [{"name": "main", "image": "registry.example/main:1"}],
                    "volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims],
                },
            }
        )

    def phase(self, claim: str) -> str:
        return self.live.get("pvc", claim)["status"]["phase"]

    def disk_of(self, claim: str) -> Json:
        uid = self.live.get("pvc", claim)["metadata"]["uid"]
        return next(disk for disk in self.disks() if disk["name"] == uid)

    def disks(self) -> list[Json]:
        return self.cloud.items("storage/disks")

    def attached(self, disk_id: str) -> list[str]:
        names = {vm["id"]: vm["name"] for vm in self.cloud.items("compute/vms/instances")}
        disk = self.cloud.get(f"{{p}}/storage/disks/{disk_id}")
        return [names[entry["vm_id"]] for entry in disk["attached_to"]]

    def node_of(self, pod: str) -> str | None:
        return self.live.get("pod", pod)["spec"].get("nodeName")

    def events(self, value: str, *, by: str = "name") -> str:
        found = self.live.get("events", f"--field-selector=involvedObject.{by}={value}")["items"]
        return "\n".join(f"{event['reason']}: {event['message']}" for event in found)

    def nodes(self) -> list[str]:
        return sorted(
            node["metadata"]["name"]
            for node in self.live.get("nodes", "-l", f"node.kubernetes.io/instance-type={WHOLE}")["items"]
        )


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Generator[Town]:
    folder = tmp_path_factory.mktemp("csi")
    with inhabited(folder, lambda cloud: {"volumes": volumes(cloud)}) as cloud:
        town = Town(cloud, cluster_with_nodes(cloud, {WHOLE: 2, SLICE: 1}))
        for one in CLASSES:
            town.live.create(one)
        yield town
    KwokControlPlane(folder / "clusters", binary=binary).delete_all()
    assert processes_below(folder) == []


def test_the_add_on_brings_no_storage_class_of_its_own(town: Town) -> None:
    names = {item["metadata"]["name"] for item in town.live.get("storageclasses")["items"]}
    assert names == {one["metadata"]["name"] for one in CLASSES}


def test_a_claim_waits_for_its_pod_and_becomes_a_disk_that_is_attached_while_the_pod_runs(town: Town) -> None:
    town.claim("home", "ssd", "20Gi")
    until(lambda: "WaitForFirstConsumer" in town.events("home"))
    assert town.disks() == []
    town.pod("user", "home")
    until(lambda: town.phase("home") == "Bound")
    disk = town.disk_of("home")
    assert (disk["type"], disk["size"], disk["location"]) == ("persistent-ssd", "20GiB", "us-east1-a")
    until(lambda: town.attached(disk["id"]) == [town.node_of("user")])
    volume = town.live.get("pv", town.live.get("pvc", "home")["spec"]["volumeName"])
    assert volume["spec"]["csi"]["volumeHandle"] == disk["id"]
    assert "attached to VM" in town.cloud.refused(400, "DELETE", f"storage/disks/{disk['id']}")
    town.live.kubectl("delete", "pod", "user")
    until(lambda: town.attached(disk["id"]) == [])
    town.live.kubectl("delete", "pvc", "home")
    until(lambda: town.disks() == [])
    until(lambda: town.live.get("pv")["items"] == [])


def test_a_persistent_disk_is_on_one_vm_at_a_time(town: Town) -> None:
    one, other = town.nodes()
    town.claim("single", "ssd-now", "1Gi")
    until(lambda: town.phase("single") == "Bound")
    disk = town.disk_of("single")
    town.pod("first", "single", node=one)
    until(lambda: town.attached(disk["id"]) == [one])
    town.pod("second", "single", node=other)
    until(lambda: "Multi-Attach error" in town.events("second") or "is attached to instance" in town.events("second"))
    assert town.attached(disk["id"]) == [one]
    town.live.kubectl("delete", "pod", "first")
    until(lambda: town.attached(disk["id"]) == [other], seconds=60)
    town.live.kubectl("delete", "pod/second", "pvc/single")
    until(lambda: town.disks() == [])


def test_a_shared_disk_is_on_many_vms_but_on_no_slice_of_a_gpu_host(town: Town) -> None:
    town.claim("shared", "fs", "1Ti", mode="ReadWriteMany")
    town.pod("on-a-slice", "shared", pool="l40s-48gb-1x")
    until(lambda: "supports-shared-disks" in town.events("shared"))
    assert town.disks() == []
    town.live.kubectl("delete", "pod", "on-a-slice")
    for node in town.nodes():
        town.pod(f"at-{node}", "shared", node=node)
    until(lambda: town.phase("shared") == "Bound")
    disk = town.disk_of("shared")
    assert disk["dns_name"]
    until(lambda: sorted(town.attached(disk["id"])) == town.nodes())
    # The volume itself keeps pods off nodes that can't mount it.
    town.pod("late", "shared", pool="l40s-48gb-1x")
    until(lambda: "FailedScheduling" in town.events("late"))
    town.live.kubectl("delete", "pod", "--all")
    town.live.kubectl("delete", "pvc", "shared")
    until(lambda: town.disks() == [])


@pytest.mark.parametrize(
    ("storage_class", "size", "more", "words"),
    [
        ("fs-now", "500Gi", {"mode": "ReadWriteMany"}, "disk size too small"),
        ("fs-now", "1500Gi", {"mode": "ReadWriteMany"}, "steps of 1024 GiB"),
        ("fs-now", "1001Ti", {"mode": "ReadWriteMany"}, "disk size too large"),
        ("fs-now", "1Ti", {"volumeMode": "Block"}, "access type not supported"),
        ("ssd-now", "11Ti", {}, "disk size too large"),
        ("ssd-now", "1Gi", {"mode": "ReadWriteMany"}, "access mode not supported: ReadWriteMany"),
    ],
)
def test_what_the_driver_refuses_stays_pending_and_says_why(
    town: Town, storage_class: str, size: str, more: Json, words: str
) -> None:
    town.claim("refused", storage_class, size, **more)
    uid = town.live.get("pvc", "refused")["metadata"]["uid"]
    until(lambda: words in town.events(uid, by="uid"))
    assert town.phase("refused") == "Pending"
    assert town.disks() == []
    town.live.kubectl("delete", "pvc", "refused")


def test_a_quota_is_counted_and_named(town: Town) -> None:
    quota = town.cloud.cloud.inventory

    async def set_to(value: int) -> None:
        quota.set_quota(PROJECT, "persistent-ssd", value)

    town.cloud.wait(lambda: set_to(10))
    try:
        town.claim("too-much", "ssd-now", "11Gi")
        until(lambda: "quota" in town.events("too-much"))
    finally:
        town.cloud.wait(lambda: set_to(1048576))
    until(lambda: town.phase("too-much") == "Bound")
    town.live.kubectl("delete", "pvc", "too-much")
    until(lambda: town.disks() == [])


def test_a_volume_grows_while_detached_and_a_shared_one_at_any_time(town: Town) -> None:
    town.claim("grows", "ssd-now", "10Gi")
    until(lambda: town.phase("grows") == "Bound")
    town.pod("holder", "grows")
    disk = town.disk_of("grows")
    until(lambda: town.attached(disk["id"]) != [])
    patch = '{"spec":{"resources":{"requests":{"storage":"30Gi"}}}}'
    town.live.kubectl("patch", "pvc", "grows", "-p", patch)
    until(lambda: "VolumeResizeFailed" in town.events("grows"))
    assert town.disk_of("grows")["size"] == "10GiB"
    town.live.kubectl("delete", "pod", "holder")
    until(lambda: town.live.get("pvc", "grows")["status"]["capacity"]["storage"] == "30Gi")
    assert town.disk_of("grows")["size"] == "30GiB"
    town.live.kubectl("delete", "pvc", "grows")
    until(lambda: town.disks() == [])


def test_a_retained_disk_stays_and_can_be_given_to_a_volume_by_hand(town: Town) -> None:
    town.claim("kept", "ssd-kept", "5Gi")
    until(lambda: town.phase("kept") == "Bound")
    disk, name = town.disk_of("kept"), town.live.get("pvc", "kept")["spec"]["volumeName"]
    town.live.kubectl("delete", "pvc", "kept")
    until(lambda: town.live.get("pv", name)["status"]["phase"] == "Released")
    town.live.kubectl("delete", "pv", name)
    assert [item["id"] for item in town.disks()] == [disk["id"]]
    town.live.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "by-hand"},
            "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "csi": {"driver": "ssd.csi.crusoe.ai", "volumeHandle": disk["id"]},
            },
        }
    )
    town.claim("again", "", "5Gi", volumeName="by-hand")
    town.pod("reader", "again")
    until(lambda: town.attached(disk["id"]) == [town.node_of("reader")])
    town.live.kubectl("delete", "pod", "reader")
    until(lambda: town.attached(disk["id"]) == [])
    town.live.kubectl("delete", "pvc", "again")
    town.live.kubectl("delete", "pv", "by-hand")
    town.cloud.done("DELETE", f"storage/disks/{disk['id']}")


def test_nothing_is_provisioned_while_the_driver_does_not_run(town: Town) -> None:
    scale = ("scale", "deployment", "crusoe-csi-driver-ssd-controller", "-n", "crusoe-system")
    town.live.kubectl(*scale, "--replicas=0")
    until(
        lambda: (
            "readyReplicas"
            not in town.live.get("deployment", "crusoe-csi-driver-ssd-controller", "-n", "crusoe-system")["status"]
        )
    )
    town.claim("waits", "ssd-now", "1Gi")
    town.claim("goes-on", "fs-now", "1Ti", mode="ReadWriteMany")
    until(lambda: town.phase("goes-on") == "Bound")
    assert town.phase("waits") == "Pending"
    town.live.kubectl(*scale, "--replicas=1")
    until(lambda: town.phase("waits") == "Bound")
    town.live.kubectl("delete", "pvc", "--all")
    until(lambda: town.disks() == [])


def test_a_vm_that_ends_lets_its_disks_go(town: Town) -> None:
    node = town.nodes()[0]
    town.claim("moves", "ssd-now", "1Gi")
    town.pod("there", "moves", node=node)
    until(lambda: town.phase("moves") == "Bound")
    disk = town.disk_of("moves")
    until(lambda: town.attached(disk["id"]) == [node])
    vm = next(vm for vm in town.cloud.items("compute/vms/instances") if vm["name"] == node)
    assert [entry["id"] for entry in vm["disks"]] == [disk["id"]]
    town.cloud.done("DELETE", f"compute/vms/instances/{vm['id']}")
    assert town.cloud.get(f"{{p}}/storage/disks/{disk['id']}")["attached_to"] == []
    # Kubernetes itself believes for six more minutes that the disk may be mounted; the inventory knows better.
    town.live.kubectl("delete", "pvc", "moves")
    until(lambda: town.disks() == [])


def test_after_a_kill_the_drivers_go_on_and_a_deleted_cluster_leaves_its_disks(tmp_path: Path) -> None:
    def actors(cloud: Any) -> Any:
        return {"volumes": volumes(cloud)}

    try:
        with inhabited(tmp_path, actors) as cloud:
            town = Town(cloud, cluster_with_nodes(cloud, {WHOLE: 1}))
            for one in CLASSES:
                town.live.create(one)
            town.claim("before", "ssd-now", "1Gi")
            until(lambda: town.phase("before") == "Bound")
            before = town.disk_of("before")
        town.claim("meanwhile", "ssd-now", "2Gi")
        with inhabited(tmp_path, actors) as cloud:
            town = Town(cloud, town.cluster_id)
            until(lambda: town.phase("meanwhile") == "Bound", seconds=60)
            ids = {before["id"], town.disk_of("meanwhile")["id"]}
            for pool in cloud.items("kubernetes/nodepools"):
                cloud.done("DELETE", f"kubernetes/nodepools/{pool['id']}")
            cloud.done("DELETE", f"kubernetes/clusters/{town.cluster_id}")
            assert {disk["id"] for disk in town.disks()} == ids
            assert {event["subject"] for event in cloud.journal("disk.left_behind")} == ids
    finally:
        KwokControlPlane(tmp_path / "clusters", binary=binary).delete_all()
    assert processes_below(tmp_path / "clusters") == []
