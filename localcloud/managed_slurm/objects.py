"""A Slurm cluster in, the objects of its Kubernetes cluster out: pure functions.

Names are those that Crusoe's support bundler, accounting example and user pages show: the Controller's objects begin
with `slurm-<cluster>`, workers are `<cluster>-<nodeset>-<index>`, the keys are in `<cluster>-auth-slurm` and
`<cluster>-auth-jwths256`, Crusoe's own health checks in `<cluster>-defaults`. The workloads here stand in for Slinky's
where its kinds aren't installed; they say nothing of a real daemon, and no kubelet that runs those looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localcloud.kubernetes.api_server import Kind
from localcloud.managed_slurm.definitions import API_VERSION
from localcloud.managed_slurm.records import NAMESPACE, NodeSetSpec, SlurmSpec, login_name

Object = dict[str, Any]

OF_CLUSTER, COMPONENT, NODE_SET = "slurm.crusoe.ai/cluster", "slurm.crusoe.ai/component", "slurm.crusoe.ai/nodeset"
CONTROLLER, LOGIN, WORKER = "controller", "login", "worker"
MANAGED_BY = {"app.kubernetes.io/managed-by": "crusoe-slurm-operator"}
REGISTRY = "ghcr.io/crusoecloud/cmk/slurm-containers"
_OPEN = "0.0.0.0/0"

KINDS = {
    ("v1", "Namespace"): Kind("v1", "namespaces", namespaced=False),
    ("v1", "Secret"): Kind("v1", "secrets", namespaced=True),
    ("v1", "Service"): Kind("v1", "services", namespaced=True),
    ("v1", "PersistentVolume"): Kind("v1", "persistentvolumes", namespaced=False),
    ("v1", "PersistentVolumeClaim"): Kind("v1", "persistentvolumeclaims", namespaced=True),
    ("apps/v1", "StatefulSet"): Kind("apps/v1", "statefulsets", namespaced=True),
    ("apps/v1", "Deployment"): Kind("apps/v1", "deployments", namespaced=True),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): Kind(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
    ),
    **{
        (API_VERSION, kind): Kind(API_VERSION, f"{kind.lower()}s", namespaced=True)
        for kind in ("SlurmCluster", "SlurmUser", "SlurmUserGroup", "SlurmClusterHealthCheck")
    },
}


def named(api_version: str, kind: str, name: str, content: Mapping[str, Any], labels: Object | None = None) -> Object:
    """An object in the namespace `slurm`."""
    metadata: Object = {"name": name, "namespace": NAMESPACE, **({"labels": labels} if labels else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def namespaces() -> list[Object]:
    """The namespaces of Crusoe's and Slinky's parts."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (NAMESPACE, "slinky")]


def slurm_cluster(spec: SlurmSpec) -> Object:
    """The SlurmCluster as the REST call makes it; login is open to everyone until someone narrows it."""
    content = {
        "clusterVersion": spec.version,
        "loginSet": {
            "replicas": spec.login_replicas,
            "instanceType": spec.login_type,
            "firewallRuleSourceRanges": [_OPEN],
        },
        "rootSSHPubKeys": list(spec.root_ssh_keys),
        "homeVolumeSize": spec.home_size,
    }
    return named(API_VERSION, "SlurmCluster", spec.name, {"spec": content})


def key_secret(spec: SlurmSpec, purpose: str, key: str, value: str) -> Object:
    """The Secret `<cluster>-auth-<purpose>`; `value` is base64."""
    return named("v1", "Secret", f"{spec.name}-auth-{purpose}", {"data": {key: value}}, labels(spec))


def default_checks(spec: SlurmSpec) -> Object:
    """Crusoe's own health checks, which are put back when someone changes them."""
    script = {
        "name": "00-crusoe",
        "source": "#!/bin/sh\n# Crusoe's own checks; this machine has no hardware.\nexit 0\n",
    }
    return named(API_VERSION, "SlurmClusterHealthCheck", f"{spec.name}-defaults", {"spec": {"scripts": [script]}})


def home(spec: SlurmSpec) -> list[Object]:
    """The shared /home: a claim, bound to the shared disk that the REST API made."""
    if not spec.home_disk:
        return []
    name = f"{spec.name}-home"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels(spec)},
        "spec": {
            **common,
            "capacity": {"storage": spec.home_size},
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "fs.csi.crusoe.ai", "volumeHandle": spec.home_disk},
            "claimRef": {"namespace": NAMESPACE, "name": name},
        },
    }
    wanted = {**common, "volumeName": name, "resources": {"requests": {"storage": spec.home_size}}}
    return [volume, named("v1", "PersistentVolumeClaim", name, {"spec": wanted}, labels(spec))]


def login_ranges(cluster: Object) -> list[str]:
    """From where the SlurmCluster lets people log in."""
    return cluster["spec"]["loginSet"].get("firewallRuleSourceRanges", [_OPEN])


def login_service(spec: SlurmSpec, cluster: Object) -> Object:
    """The way in from outside: a load balancer that lets in whom the SlurmCluster names."""
    item = named(
        "v1",
        "Service",
        login_name(spec.name),
        {
            "spec": {
                "type": "LoadBalancer",
                "selector": pod_labels(spec, LOGIN),
                "ports": [{"name": "ssh", "port": 22, "protocol": "TCP", "targetPort": 22}],
                "loadBalancerSourceRanges": login_ranges(cluster),
            }
        },
        labels(spec),
    )
    item["metadata"]["annotations"] = {"crusoe.ai/manage-firewall-rule": "true"}
    return item


def workloads(spec: SlurmSpec, cluster: Object) -> list[Object]:
    """Controller, login and worker pods without Slinky."""
    replicas = cluster["spec"]["loginSet"]["replicas"]
    login = _pod(spec, LOGIN, "login", spec.login_pool)
    return [
        _stateful_set(spec, f"slurm-{spec.name}-controller", 1, _pod(spec, CONTROLLER, "slurmctld", spec.login_pool)),
        _workload(spec, "Deployment", f"slurm-{spec.name}-login", replicas, login, {}),
        *(
            _stateful_set(spec, worker_name(spec, node_set), node_set.replicas, worker_pod(spec, node_set))
            for node_set in spec.node_sets
        ),
    ]


def worker_name(spec: SlurmSpec, node_set: NodeSetSpec) -> str:
    """The name of a node set's workload; its pods are this name with a number."""
    return f"{spec.name}-{node_set.name}"


def worker_pod(spec: SlurmSpec, node_set: NodeSetSpec) -> Object:
    """A worker: one on each node of its pool, with all GPUs of the node."""
    pod = _pod(spec, WORKER, "slurmd", node_set.pool_id, node_set)
    if node_set.gpu_resource:
        amount = {node_set.gpu_resource: str(node_set.gpus)}
        pod["spec"]["containers"][0]["resources"] = {"requests": amount, "limits": amount}
    term = {"labelSelector": {"matchLabels": pod["metadata"]["labels"]}, "topologyKey": "kubernetes.io/hostname"}
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod


def labels(spec: SlurmSpec) -> Object:
    """The labels of everything that the operator keeps, and takes away when it is no longer wanted."""
    return {**MANAGED_BY, OF_CLUSTER: spec.name}


def pod_labels(spec: SlurmSpec, component: str, node_set: NodeSetSpec | None = None) -> Object:
    """The labels by which pods are found, whoever made them."""
    return {OF_CLUSTER: spec.name, COMPONENT: component, **({NODE_SET: node_set.name} if node_set else {})}


def image(spec: SlurmSpec, name: str) -> str:
    """An image of Crusoe's; the tag is `<slurm>-<os>-cmk.<n>`."""
    slurm, build = spec.version.split("-", 1)
    return f"{REGISTRY}/{name}:{slurm}-ubuntu24.04-{build}"


def placement(pool_id: str) -> Object:
    """The part of a pod that brings it onto the nodes of a pool, whatever taints GPU nodes have."""
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {"nodeSelector": {"crusoe.ai/nodepool.id": pool_id}, "tolerations": tolerations}


def _pod(spec: SlurmSpec, component: str, container: str, pool_id: str, node_set: NodeSetSpec | None = None) -> Object:
    return {
        "metadata": {"labels": pod_labels(spec, component, node_set)},
        "spec": {
            **placement(pool_id),
            "containers": [{"name": container, "image": image(spec, container)}],
            "terminationGracePeriodSeconds": 30,
        },
    }


def _stateful_set(spec: SlurmSpec, name: str, replicas: int, pod: Object) -> Object:
    return _workload(
        spec, "StatefulSet", name, replicas, pod, {"serviceName": "slurm-workers", "podManagementPolicy": "Parallel"}
    )


def _workload(spec: SlurmSpec, kind: str, name: str, replicas: int, pod: Object, more: Object) -> Object:
    selector = {"matchLabels": pod["metadata"]["labels"]}
    content = {"spec": {"replicas": replicas, "selector": selector, "template": pod, **more}}
    return named("apps/v1", kind, name, content, labels(spec))
