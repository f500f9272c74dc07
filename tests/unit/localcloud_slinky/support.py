"""Custom resources to build tests from."""

from __future__ import annotations

from typing import Any

from localcloud.slinky.decisions import INDEX, MODE, REVISION, Worker, revision
from localcloud.slinky.rest import SlurmNode
from localcloud.slinky.values import Object

SLURM_KEY = {"name": "slurm-auth-slurm", "key": "slurm.key"}
JWT_KEY = {"name": "slurm-auth-jwt", "key": "jwt.key"}


def resource(kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    return {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "slurm", "uid": f"uid-{name}", "generation": 1, **metadata},
        "spec": spec,
    }


def controller(**spec: Any) -> Object:
    return resource("Controller", "slurm", {"slurmKeyRef": SLURM_KEY, "jwtKeyRef": JWT_KEY, **spec})


def node_set(**spec: Any) -> Object:
    return resource("NodeSet", "train", {"controllerRef": {"name": "slurm"}, "replicas": 2, **spec})


def worker(
    owner: Object,
    number: int,
    *states: str,
    reason: str = "",
    ready: bool = True,
    node: Object | None = None,
    annotations: dict[str, str] | None = None,
    phase: str = "Running",
    old: bool = False,
    terminating: bool = False,
) -> Worker:
    """The n-th worker as it runs; without states, Slurm doesn't know it."""
    name = f"{owner['metadata']['name']}-{number}"
    labels = {
        INDEX: str(number),
        MODE: "StatefulSet",
        REVISION: "old" if old else revision(owner),
        "nodeset.slinky.slurm.net/pod-hostname": name,
    }
    metadata: Object = {"name": name, "namespace": "slurm", "labels": labels, "annotations": annotations or {}}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    pod: Object = {
        "metadata": metadata,
        "spec": {"nodeName": "np-0"},
        "status": {"phase": phase, "conditions": conditions},
    }
    slurm = SlurmNode(name, frozenset(states), reason) if states else None
    return Worker(pod, slurm, node)
