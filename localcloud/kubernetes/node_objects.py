"""VM in, Node object out: pure functions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from localcloud.control_plane import NodeSpec

Object = dict[str, Any]

PODS_PER_NODE = 110
"""The kubelet's default; Crusoe's cluster autoscaler counts with it too."""

SYSTEM_PODS = "local.crusoe.ai/system-pods"
"""The label of nodes on which the DaemonSets of the add-ons run."""

_CONDITIONS = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
# Types without local NVMe still have their OS disk; its size is assumed.
_OS_DISK_GB = 128
# What kwok looks for, and what remembers which version of the VM's facts a Node shows.
_FAKE = "kwok.x-k8s.io/node"
_DIGEST = "local.crusoe.ai/digest"
_LABELS = "local.crusoe.ai/labels"
# A kubelet's word that the controller manager attaches its volumes; without it no VolumeAttachment is ever made.
_ATTACH = "volumes.kubernetes.io/controller-managed-attach-detach"


def node_object(node: NodeSpec, now: datetime, *, system_pods: bool = True) -> Object:
    """The Node that registers when a VM has booted, Ready at once. Kubernetes takes `status` into account at creation.

    `system_pods`: whether the DaemonSets of the add-ons run there.

    Taints are the pool's own. Whether CMK taints GPU nodes by itself is not settled: a README of Crusoe's says so, the
    API shows nothing of it. Without such a taint, a program that relies on it to keep other pods off expensive nodes is
    found out here; a pool with the taint `nvidia.com/gpu` of its own shows the other reading.
    The provider id's form and the address types are those of Crusoe's cloud controller manager. Allocatable equals
    capacity, as Crusoe's cluster autoscaler assumes: what the kubelet of a CMK image reserves is not published.
    """
    resources = _resources(node)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {**_all_labels(node), **({SYSTEM_PODS: "true"} if system_pods else {})},
            "annotations": _annotations(node),
        },
        "spec": {
            "providerID": f"crusoe://{node.instance_id}",
            "taints": [
                {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
                for taint in node.taints
            ],
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": _addresses(node),
            "conditions": [_condition(*condition, now=now) for condition in _CONDITIONS],
            "phase": "Running",
            "nodeInfo": {
                "architecture": node.architecture,
                "bootID": node.instance_id,
                "containerRuntimeVersion": "containerd://2.0.5",
                "kernelVersion": "5.15.0-fake",
                "kubeProxyVersion": "",
                "kubeletVersion": f"v{node.version.split('-', 1)[0]}",
                "machineID": node.instance_id.replace("-", ""),
                "operatingSystem": "linux",
                "osImage": "Ubuntu 22.04 LTS",
                "systemUUID": node.instance_id,
            },
        },
    }


def is_current(existing: Object, node: NodeSpec) -> bool:
    """Whether a Node shows the VM's facts as they are now."""
    return existing["metadata"].get("annotations", {}).get(_DIGEST) == _digest(node)


def metadata_patch(existing: Object, node: NodeSpec) -> Object:
    """A merge patch that corrects the platform's labels; labels, taints and cordons by others stay.

    Taints are not touched: by the API, a pool's taints reach new nodes only.
    """
    annotations = existing["metadata"].get("annotations", {})
    before = json.loads(annotations.get(_LABELS, "[]"))
    labels = _all_labels(node)
    gone = {label: None for label in before if label not in labels}
    return {"metadata": {"labels": {**gone, **labels}, "annotations": _annotations(node)}}


def status_patch(existing: Object, node: NodeSpec) -> Object:
    """A merge patch of the `status` subresource that corrects resources and addresses."""
    resources = _resources(node)

    def corrected(name: str) -> Object:
        before = existing.get("status", {}).get(name, {})
        return {**{resource: None for resource in before if resource not in resources}, **resources}

    return {
        "status": {
            "capacity": corrected("capacity"),
            "allocatable": corrected("allocatable"),
            "addresses": _addresses(node),
        }
    }


def is_ready(existing: Object) -> bool:
    """Whether the node is Ready and the controllers have taken their own not-ready taints off."""
    conditions = existing.get("status", {}).get("conditions", [])
    taints = existing.get("spec", {}).get("taints", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions) and not any(
        taint["key"] == "node.kubernetes.io/not-ready" for taint in taints
    )


def has_system_pods(existing: Object) -> bool:
    """Whether the DaemonSets of the add-ons run on the node."""
    return SYSTEM_PODS in existing["metadata"].get("labels", {})


def _condition(kind: str, status: str, reason: str, message: str, *, now: datetime) -> Object:
    times = {key: now.strftime("%Y-%m-%dT%H:%M:%SZ") for key in ("lastHeartbeatTime", "lastTransitionTime")}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def _resources(node: NodeSpec) -> dict[str, str]:
    return {
        "cpu": str(node.cpu),
        "memory": f"{node.memory_gb}Gi",
        "ephemeral-storage": f"{max(node.ephemeral_storage_gb, _OS_DISK_GB)}Gi",
        "pods": str(PODS_PER_NODE),
        **{name: str(amount) for name, amount in node.extended_resources.items()},
    }


def _addresses(node: NodeSpec) -> list[Object]:
    return [
        {"type": "InternalIP", "address": node.internal_ip},
        *([{"type": "ExternalIP", "address": node.external_ip}] if node.external_ip else []),
        {"type": "Hostname", "address": node.name},
    ]


def _all_labels(node: NodeSpec) -> dict[str, str]:
    return {
        **node.labels,
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": node.architecture,
        # Deprecated, but kubelets set them, and Kubernetes would add them in a write of its own.
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": node.architecture,
    }


def _annotations(node: NodeSpec) -> dict[str, str]:
    return {_FAKE: "fake", _ATTACH: "true", _DIGEST: _digest(node), _LABELS: json.dumps(sorted(_all_labels(node)))}


def _digest(node: NodeSpec) -> str:
    return hashlib.sha256(json.dumps(asdict(node), sort_keys=True).encode()).hexdigest()[:16]
