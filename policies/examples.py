"""Resources that examples are made of: each as plain as its kind can be and still be right."""

from __future__ import annotations

from policies import kinds

Declared = dict[str, object]

NODE_SET = "kubernetes:slinky.slurm.net/v1beta1:NodeSet"
CONTROLLER = "kubernetes:slinky.slurm.net/v1beta1:Controller"


def pool(name: str = "train", /, **properties: object) -> Declared:
    """Return a pool of two whole L40S hosts, or what else is said."""
    given = {"type": "l40s-48gb.10x", "count": 2, "publicIpType": "none", **properties}
    return {"type": kinds.NODE_POOL, "name": name, "properties": {k: v for k, v in given.items() if v is not None}}


def cluster(**properties: object) -> Declared:
    """Return a cluster of a version that has AutoClusters."""
    given = {"version": "1.33.4-cmk.43", "private": True, **properties}
    return {"type": kinds.CLUSTER, "name": "cluster", "properties": given}


def repairs(actions: dict[str, str], *, fallback: bool = True) -> Declared:
    """Return the cluster's AutoClusters configuration."""
    properties = {"remediationActions": actions, "fallbackToProjectReservations": fallback}
    return {"type": kinds.AUTO_CLUSTERS, "name": "repairs", "properties": properties, "from": {"clusterId": "cluster"}}


def slurm(kind: str, name: str, spec: Declared) -> Declared:
    """Return an object of Slinky."""
    properties = {"metadata": {"name": name, "namespace": "slurm"}, "spec": spec}
    return {"type": f"kubernetes:slinky.slurm.net/v1beta1:{kind}", "name": name, "properties": properties}


def workers(**spec: object) -> Declared:
    """Return a NodeSet."""
    return slurm("NodeSet", "workers", {"replicas": 2, **spec})


def controller(conf: str) -> Declared:
    """Return a Controller with some of slurm.conf."""
    return slurm("Controller", "slurm", {"extraConf": conf})


def gpu_container(gpus: int = 1, image: str = "vllm/vllm-openai:v0.11.0") -> Declared:
    """Return a container that asks for GPUs."""
    return {"name": "model", "image": image, "resources": {"limits": {"nvidia.com/gpu": gpus}}}


def object_of(token: str, name: str, **fields: object) -> Declared:
    """Return an object of Kubernetes."""
    return {"type": f"kubernetes:{token}", "name": name, "properties": fields}
