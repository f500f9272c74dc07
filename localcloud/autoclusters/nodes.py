"""What AutoClusters writes to a Node, and what it reads of a node's pods: pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from localcloud.in_cluster.objects import annotation, deleting
from localcloud.kubernetes.gpu_faults import GPU_FAULTS, GpuFault, faults_of, kernel_lines

if TYPE_CHECKING:
    from localcloud.autoclusters.incidents import Incident

Object = dict[str, Any]

REMEDIATION = "crusoe.ai/remediation"
"""Annotation of a Node under repair. Crusoe's `cmk-node-remediation` uses keys that begin so; that AutoClusters does
the same is invented."""

CONDITION = "GPUXIDUnhealthy"
"""Condition of a Node with a broken GPU, in the style of Crusoe's problem detector (`GPUDCGMUnhealthy`); invented."""

OPT_OUT = "local.crusoe.ai/no-replacement"
"""Label of a pod that forbids the replacement of its node, whatever its value. Invented: the real one isn't known."""


@dataclass(frozen=True)
class Pod:
    """A pod that a drain moves."""

    namespace: str
    name: str
    opted_out: bool = False
    ending: bool = False


def movable(pods: Iterable[Mapping[str, Any]]) -> list[Pod]:
    """The pods of a node that a drain moves: all but those of DaemonSets, and those that have ended."""
    return [
        Pod(
            item["metadata"]["namespace"],
            item["metadata"]["name"],
            OPT_OUT in item["metadata"].get("labels", {}),
            deleting(dict(item)),
        )
        for item in pods
        if not any(owner["kind"] == "DaemonSet" for owner in item["metadata"].get("ownerReferences", []))
        and item.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]


def broken(node: Object, incident: Incident) -> Object:
    """A merge patch: the machine has this fault too."""
    known = faults_of(annotation(node, GPU_FAULTS))
    new = GpuFault(incident.xid, incident.gpu)
    faults = known if new in known else [*known, new]
    return {"metadata": {"annotations": {GPU_FAULTS: json.dumps([[each.xid, each.gpu] for each in faults])}}}


def unhealthy(incident: Incident) -> Object:
    """A strategic merge patch of the status: the problem detector has seen the fault."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": incident.issue,
        "message": kernel_lines([GpuFault(incident.xid, incident.gpu)])[0],
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }
    return {"status": {"conditions": [condition]}}


def isolated(incident: Incident) -> Object:
    """A merge patch: no more pods there, and a mark that says why. Another incident is another mark."""
    mark = f"{incident.issue}-{incident.id[:8]}"
    return {"metadata": {"annotations": {REMEDIATION: mark}}, "spec": {"unschedulable": True}}
