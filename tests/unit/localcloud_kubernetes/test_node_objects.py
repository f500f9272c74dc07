"""VMs become Nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from localcloud.control_plane import Taint
from localcloud.kubernetes.node_objects import (
    SYSTEM_PODS,
    has_system_pods,
    is_current,
    is_ready,
    metadata_patch,
    node_object,
    status_patch,
)
from tests.unit.localcloud_kubernetes.support import H100

NOW = datetime(2026, 10, 1, 12, 0, tzinfo=UTC)


def merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7396)."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), cast(dict[str, Any], value))
        else:
            result[key] = value
    return result


def test_a_node_has_its_vms_resources_and_the_kubelets_number_of_pods() -> None:
    status = node_object(H100, NOW)["status"]
    expected = {
        "cpu": "176",
        "memory": "960Gi",
        "ephemeral-storage": "7680Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
        "nvidia.com/hostdev": "8",
    }
    assert status["capacity"] == status["allocatable"] == expected


def test_a_type_without_local_disks_has_its_os_disk() -> None:
    allocatable = node_object(replace(H100, ephemeral_storage_gb=0), NOW)["status"]["allocatable"]
    assert allocatable["ephemeral-storage"] == "128Gi"


def test_gpus_are_invisible_without_the_operator_that_announces_them() -> None:
    allocatable = node_object(replace(H100, extended_resources={}), NOW)["status"]["allocatable"]
    assert not [name for name in allocatable if "/" in name]


def test_a_node_is_recognised_by_crusoes_controllers_and_by_kwok() -> None:
    node = node_object(H100, NOW)
    assert node["spec"]["providerID"] == f"crusoe://{H100.instance_id}"
    assert node["status"]["nodeInfo"]["systemUUID"] == H100.instance_id
    assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.4"


def test_labels_are_the_pools_and_the_kubelets() -> None:
    labels = node_object(H100, NOW)["metadata"]["labels"]
    assert labels.items() >= H100.labels.items()
    assert labels["kubernetes.io/hostname"] == H100.name
    assert labels["kubernetes.io/arch"] == "amd64"
    assert labels["kubernetes.io/os"] == "linux"
    assert labels["beta.kubernetes.io/os"] == "linux"


def test_addresses_leave_out_a_public_one_that_is_not_there() -> None:
    public = node_object(H100, NOW)["status"]["addresses"]
    private = node_object(replace(H100, external_ip=None), NOW)["status"]["addresses"]
    assert [item["type"] for item in public] == ["InternalIP", "ExternalIP", "Hostname"]
    assert [item["type"] for item in private] == ["InternalIP", "Hostname"]


def test_taints_are_the_pools_and_no_other() -> None:
    node = replace(H100, taints=(Taint("team", "NoSchedule", "research"), Taint("spare", "NoExecute")))
    assert node_object(node, NOW)["spec"]["taints"] == [
        {"key": "team", "effect": "NoSchedule", "value": "research"},
        {"key": "spare", "effect": "NoExecute"},
    ]


def test_a_new_node_is_ready_but_for_the_taint_that_kubernetes_adds() -> None:
    node = node_object(H100, NOW)
    assert is_ready(node)
    assert not is_ready({**node, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}})
    assert not is_ready({**node, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})


def test_a_nodes_system_pods_are_a_matter_of_its_label() -> None:
    assert has_system_pods(node_object(H100, NOW))
    assert not has_system_pods(node_object(H100, NOW, system_pods=False))


def test_a_node_is_current_until_a_fact_of_its_vm_changes() -> None:
    node = node_object(H100, NOW)
    assert is_current(node, H100)
    assert not is_current(node, replace(H100, extended_resources={"nvidia.com/gpu": 8}))


def test_correcting_a_node_gives_what_a_new_one_would_have() -> None:
    old = replace(H100, labels={**H100.labels, "gone": "1"}, extended_resources={"nvidia.com/gpu": 8, "amd.com/gpu": 8})
    node = node_object(old, NOW)
    corrected = merged(merged(node, status_patch(node, H100)), metadata_patch(node, H100))
    assert corrected == node_object(H100, NOW)
    assert is_current(corrected, H100)


def test_correcting_a_node_leaves_what_others_put_on_it() -> None:
    node = node_object(H100, NOW)
    node["metadata"]["labels"]["by-hand"] = "yes"
    node["metadata"]["annotations"]["by-hand"] = "yes"
    node["spec"]["unschedulable"] = True
    corrected = merged(node, metadata_patch(node, replace(H100, labels={})))
    assert corrected["metadata"]["labels"]["by-hand"] == "yes"
    assert corrected["metadata"]["labels"][SYSTEM_PODS] == "true"
    assert corrected["metadata"]["annotations"]["by-hand"] == "yes"
    assert corrected["spec"] == node["spec"]
    assert "crusoe.ai/nodepool.name" not in corrected["metadata"]["labels"]
