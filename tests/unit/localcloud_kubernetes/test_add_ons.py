"""Add-ons become the objects that others rely on."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.kubernetes.add_ons import CORE, CloudAccess, add_on_labels, add_on_objects, wanted_add_ons
from localcloud.kubernetes.api_server import path_of
from localcloud.kubernetes.node_objects import SYSTEM_PODS
from tests.unit.localcloud_kubernetes.support import CLUSTER, cluster, h100

ACCESS = CloudAccess("http://127.0.0.1:8787/v1", "KEY", "SECRET")
ADD_ONS = (
    CORE,
    "crusoe_csi",
    "cluster_autoscaler",
    "nvidia_gpu_operator",
    "nvidia_network_operator",
    "amd_gpu_operator",
    "amd_network_operator",
    "autocluster_active_testing",
)


def objects(add_on: str) -> list[dict[str, Any]]:
    return add_on_objects(add_on, CLUSTER, ACCESS)


def named(add_on: str) -> set[str]:
    return {
        "/".join(filter(None, (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])))
        for item in objects(add_on)
    }


@pytest.mark.parametrize(
    ("add_on", "expected"),
    [
        (
            CORE,
            {
                "Namespace/crusoe-system",
                "Secret/crusoe-system/crusoe-secrets",
                "DaemonSet/kube-system/cilium",
                "Deployment/kube-system/coredns",
                "Service/kube-system/kube-dns",
                "Deployment/kube-system/crusoe-cloud-controller-manager",
            },
        ),
        (
            "crusoe_csi",
            {
                "CSIDriver/ssd.csi.crusoe.ai",
                "CSIDriver/fs.csi.crusoe.ai",
                "DaemonSet/crusoe-system/crusoe-csi-driver-ssd-node",
                "DaemonSet/crusoe-system/crusoe-csi-driver-fs-node",
            },
        ),
        ("cluster_autoscaler", {"Deployment/crusoe-system/cluster-autoscaler"}),
        (
            "nvidia_gpu_operator",
            {
                "Namespace/nvidia-gpu-operator",
                "Deployment/nvidia-gpu-operator/gpu-operator",
                "DaemonSet/nvidia-gpu-operator/nvidia-device-plugin-daemonset",
                "DaemonSet/nvidia-gpu-operator/nvidia-dcgm-exporter",
                "Service/nvidia-gpu-operator/nvidia-dcgm-exporter",
                "RuntimeClass/nvidia",
                "ClusterPolicy/cluster-policy",
            },
        ),
        (
            "nvidia_network_operator",
            {
                "Namespace/nvidia-network-operator",
                "NicClusterPolicy/nic-cluster-policy",
                "DaemonSet/nvidia-network-operator/sriov-device-plugin",
            },
        ),
        ("amd_gpu_operator", {"Namespace/kube-amd-gpu", "DaemonSet/kube-amd-gpu/default-device-plugin"}),
        ("amd_network_operator", {"Namespace/kube-amd-network"}),
        ("autocluster_active_testing", {"PriorityClass/scavenger"}),
    ],
)
def test_an_add_on_brings_the_objects_that_others_rely_on(add_on: str, expected: set[str]) -> None:
    assert expected <= named(add_on)


@pytest.mark.parametrize("add_on", ADD_ONS)
def test_a_namespace_comes_before_what_lies_in_it(add_on: str) -> None:
    seen = {"kube-system"}
    for item in objects(add_on):
        assert item["metadata"].get("namespace", "kube-system") in seen
        if item["kind"] == "Namespace":
            seen.add(item["metadata"]["name"])


@pytest.mark.parametrize("add_on", ADD_ONS)
def test_every_object_can_be_addressed(add_on: str) -> None:
    paths = [path_of(item) for item in objects(add_on)]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("add_on", ADD_ONS)
def test_daemon_sets_run_on_tainted_nodes_and_where_system_pods_belong(add_on: str) -> None:
    for item in objects(add_on):
        if item["kind"] == "DaemonSet":
            pod = item["spec"]["template"]["spec"]
            assert pod["tolerations"] == [{"operator": "Exists"}]
            assert pod["nodeSelector"][SYSTEM_PODS] == "true"


def test_no_add_on_creates_a_storage_class() -> None:
    assert not [item for add_on in ADD_ONS for item in objects(add_on) if item["kind"] == "StorageClass"]


def test_the_secret_holds_the_keys_by_the_names_that_workloads_read() -> None:
    secret = next(item for item in objects(CORE) if item["kind"] == "Secret")
    assert secret["stringData"] == {
        "CRUSOE_API_ENDPOINT": "http://127.0.0.1:8787/v1",
        "CRUSOE_ACCESS_KEY": "KEY",
        "CRUSOE_SECRET_KEY": "SECRET",
        "CRUSOE_PROJECT_ID": CLUSTER.project_id,
        "CRUSOE_CLUSTER_ID": CLUSTER.id,
    }
    assert "SECRET" not in repr(ACCESS)


def test_the_autoscaler_matches_the_clusters_version_and_has_no_bounds_yet() -> None:
    deployment = next(item for item in objects("cluster_autoscaler") if item["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"].endswith(":1.33.4")
    assert not [argument for argument in container["command"] if argument.startswith("--nodes=")]


@pytest.mark.parametrize(
    ("vm_type", "gpus", "shared_disks"),
    [
        ("c1a.4x", 0, "true"),
        ("s2a.80x", 0, "true"),
        ("h100-80gb-sxm-ib.8x", 8, "true"),
        ("a100-80gb.1x", 1, "false"),
        ("l40s-48gb.8x", 8, "false"),
        ("l40s-48gb.10x", 10, "true"),
        ("gb200-186gb-nvl-ib.4x", 4, "true"),
    ],
)
def test_the_csi_drivers_announce_where_a_node_is_and_what_it_can_mount(
    vm_type: str, gpus: int, shared_disks: str
) -> None:
    node = h100(vm_type=vm_type, gpus=gpus, labels={"topology.kubernetes.io/zone": "us-east1-a"})
    assert add_on_labels(["crusoe_csi"], node) == {
        "ssd.csi.crusoe.ai/location": "us-east1-a",
        "fs.csi.crusoe.ai/location": "us-east1-a",
        "fs.csi.crusoe.ai/supports-shared-disks": shared_disks,
    }
    assert add_on_labels(["nvidia_gpu_operator"], node) == {}


def test_an_add_on_that_leaves_no_trace_in_the_cluster_is_fine() -> None:
    assert objects("autoclusters") == []


def test_the_core_belongs_in_every_cluster() -> None:
    assert wanted_add_ons(cluster(add_ons=())) == (CORE,)
    assert wanted_add_ons(CLUSTER) == (CORE, *CLUSTER.add_ons)
