"""Add-on name in, the objects that CMK would have installed out: pure functions.

Only what others can rely on is here: namespaces, workloads by the names that Crusoe's charts and the vendors' operators
give them, CSIDrivers, the API key Secret, the operators' policies. Nothing in the containers runs; what the CSI
drivers do is done from outside while their Deployments are ready (`localcloud.in_cluster`). Sources: Crusoe's
public cloud controller manager, CSI driver, cluster autoscaler and AutoClusters charts; the NVIDIA and AMD operators.

Readings where the sources leave room:

* The CSI add-on creates no StorageClass; Crusoe's own examples create theirs.
* The cluster autoscaler comes without `--nodes=<min>:<max>:<pool>` arguments; they are added to its Deployment later.
* There is no metrics-server; nor the Watch Agent, on which the sources differ.
* The load balancer controller is a Helm release of the customer's in CMK. Here its work is done in every cluster, from
  outside (`localcloud.in_cluster`), so that no workload of it is to be seen.
* Add-ons are applied once, like the Helm releases they stand for: what a user changes afterwards stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcloud.control_plane import ClusterSpec, NodeSpec
from localcloud.kubernetes.node_objects import SYSTEM_PODS

Object = dict[str, Any]

CORE = "core"
"""What every CMK cluster has, whatever its add-ons."""

SYSTEM = "crusoe-system"
_KUBE_SYSTEM = "kube-system"
_NVIDIA_GPU = "nvidia-gpu-operator"
_NVIDIA_NETWORK = "nvidia-network-operator"
_AMD_GPU = "kube-amd-gpu"
_AMD_NETWORK = "kube-amd-network"

_NVIDIA_NODES = {"nvidia.com/gpu.present": "true"}
_AMD_NODES = {"feature.node.kubernetes.io/amd-gpu": "true"}


@dataclass(frozen=True)
class CloudAccess:
    """How workloads in a cluster reach the Crusoe API; becomes the Secret `crusoe-secrets`."""

    endpoint: str
    access_key_id: str
    secret_key: str = field(repr=False)


def add_on_objects(add_on: str, cluster: ClusterSpec, access: CloudAccess | None) -> list[Object]:
    """The objects of one add-on, in the order in which they must be created; none for one that leaves no trace."""
    build = _BUILDERS.get(add_on)
    return build(cluster, access) if build else []


def add_on_labels(add_ons: Collection[str], node: NodeSpec) -> dict[str, str]:
    """The labels that the add-ons' own agents put on a node: so far the topology that the CSI drivers announce.

    Shared disks mount on CPU types and on GPU types that own their host (Crusoe's CSI driver before 0.4.11; later ones
    lift the limit, and the stricter reading is kept).
    """
    zone = node.labels.get("topology.kubernetes.io/zone")
    if "crusoe_csi" not in add_ons or zone is None:
        return {}
    family, _, size = node.vm_type.partition(".")
    whole_host = {"l40s-48gb": "10x", "gb200-186gb-nvl": "4x", "gb200-186gb-nvl-ib": "4x"}.get(family, "8x")
    shared_disks = node.gpus == 0 or size == whole_host
    return {
        "ssd.csi.crusoe.ai/location": zone,
        "fs.csi.crusoe.ai/location": zone,
        "fs.csi.crusoe.ai/supports-shared-disks": str(shared_disks).lower(),
    }


def wanted_add_ons(cluster: ClusterSpec) -> tuple[str, ...]:
    """What belongs in a cluster: the core and its add-ons."""
    return (CORE, *cluster.add_ons)


def _core(cluster: ClusterSpec, access: CloudAccess | None) -> list[Object]:
    return [
        _namespace(SYSTEM),
        *([_secret(cluster, access)] if access else []),
        _daemon_set(_KUBE_SYSTEM, "cilium", "quay.io/cilium/cilium:v1.17", labels={"k8s-app": "cilium"}),
        _deployment(
            _KUBE_SYSTEM, "cilium-operator", "quay.io/cilium/operator-generic:v1.17", labels={"name": "cilium-operator"}
        ),
        _deployment(
            _KUBE_SYSTEM,
            "coredns",
            "registry.k8s.io/coredns/coredns:v1.12.0",
            labels={"k8s-app": "kube-dns"},
            replicas=2,
        ),
        _service(_KUBE_SYSTEM, "kube-dns", {"k8s-app": "kube-dns"}, {"dns": 53, "metrics": 9153}),
        _deployment(
            _KUBE_SYSTEM,
            "crusoe-cloud-controller-manager",
            "ghcr.io/crusoecloud/crusoe-cloud-controller-manager:v0.1.2",
            command=["crusoe-cloud-controller-manager", "--cloud-provider=crusoe", f"--cluster-name={cluster.name}"],
        ),
    ]


def _crusoe_csi(_cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    image = "ghcr.io/crusoecloud/crusoe-csi-driver:v0.4.0"
    objects: list[Object] = [_namespace(SYSTEM)]
    for kind in ("ssd", "fs"):
        release = f"crusoe-csi-driver-{kind}"
        objects += [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": f"{kind}.csi.crusoe.ai"},
                "spec": {"attachRequired": True},
            },
            _deployment(SYSTEM, f"{release}-controller", image, secret=True),
            _daemon_set(SYSTEM, f"{release}-node", image, secret=True),
        ]
    return objects


def _cluster_autoscaler(cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    return [
        _namespace(SYSTEM),
        _deployment(
            SYSTEM,
            "cluster-autoscaler",
            f"ghcr.io/crusoecloud/cluster-autoscaler-crusoecloud:{cluster.kubernetes_version}",
            command=[
                "./cluster-autoscaler",
                f"--namespace={SYSTEM}",
                "--v=4",
                "--logtostderr=true",
                "--cloud-provider=crusoecloud",
            ],
            secret=True,
        ),
    ]


def _nvidia_gpu_operator(_cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    definition, policy = _cluster_wide_policy("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies", "cluster-policy")
    exporter = "nvidia-dcgm-exporter"
    return [
        _namespace(_NVIDIA_GPU),
        definition,
        _deployment(_NVIDIA_GPU, "gpu-operator", "nvcr.io/nvidia/gpu-operator:v25.10.1"),
        *(
            _daemon_set(_NVIDIA_GPU, name, image, nodes=_NVIDIA_NODES)
            for name, image in (
                ("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"),
                ("gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"),
                (exporter, "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1"),
            )
        ),
        _service(_NVIDIA_GPU, exporter, {"app": exporter}, {"gpu-metrics": 9400}),
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
        policy,
    ]


def _nvidia_network_operator(_cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    definition, policy = _cluster_wide_policy(
        "mellanox.com", "v1alpha1", "NicClusterPolicy", "nicclusterpolicies", "nic-cluster-policy"
    )
    return [
        _namespace(_NVIDIA_NETWORK),
        definition,
        _deployment(
            _NVIDIA_NETWORK, "nvidia-network-operator", "nvcr.io/nvidia/cloud-native/network-operator:v25.10.0"
        ),
        *(
            _daemon_set(_NVIDIA_NETWORK, name, image, node_label_exists="crusoe.ai/ib.partition.id")
            for name, image in (
                ("mofed-ubuntu22.04-ds", "nvcr.io/nvidia/mellanox/doca-driver:25.10"),
                ("sriov-device-plugin", "nvcr.io/nvidia/mellanox/sriov-network-device-plugin:v3.11.0"),
            )
        ),
        policy,
    ]


def _amd_gpu_operator(_cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    return [
        _namespace(_AMD_GPU),
        _deployment(_AMD_GPU, "amd-gpu-operator-controller-manager", "docker.io/rocm/gpu-operator:v1.4.1"),
        *(
            _daemon_set(_AMD_GPU, name, image, nodes=_AMD_NODES)
            for name, image in (
                ("default-device-plugin", "docker.io/rocm/k8s-device-plugin:1.31.0.9"),
                ("default-node-labeller", "docker.io/rocm/k8s-device-plugin:labeller-1.31.0.9"),
                ("default-metrics-exporter", "docker.io/rocm/device-metrics-exporter:v1.4.1"),
            )
        ),
    ]


def _amd_network_operator(_cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    return [
        _namespace(_AMD_NETWORK),
        _deployment(_AMD_NETWORK, "amd-network-operator-controller-manager", "docker.io/rocm/network-operator:v1.0.1"),
    ]


def _autocluster_active_testing(_cluster: ClusterSpec, _access: CloudAccess | None) -> list[Object]:
    return [
        _namespace(SYSTEM),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "scavenger"},
            "value": -1000,
            "description": "Active Health Checks; every other pod goes first.",
        },
        _deployment(SYSTEM, "autoclusters-controller", "ghcr.io/crusoecloud/autoclusters-controller:1.3.0"),
        _daemon_set(SYSTEM, "crusoe-npd", "ghcr.io/crusoecloud/crusoe-npd:1.3.0", nodes=_NVIDIA_NODES),
    ]


_BUILDERS: Mapping[str, Callable[[ClusterSpec, CloudAccess | None], list[Object]]] = {
    CORE: _core,
    "crusoe_csi": _crusoe_csi,
    "cluster_autoscaler": _cluster_autoscaler,
    "nvidia_gpu_operator": _nvidia_gpu_operator,
    "nvidia_network_operator": _nvidia_network_operator,
    "amd_gpu_operator": _amd_gpu_operator,
    "amd_network_operator": _amd_network_operator,
    "autocluster_active_testing": _autocluster_active_testing,
}


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _secret(cluster: ClusterSpec, access: CloudAccess) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "crusoe-secrets", "namespace": SYSTEM},
        "stringData": {
            "CRUSOE_API_ENDPOINT": access.endpoint,
            "CRUSOE_ACCESS_KEY": access.access_key_id,
            "CRUSOE_SECRET_KEY": access.secret_key,
            "CRUSOE_PROJECT_ID": cluster.project_id,
            "CRUSOE_CLUSTER_ID": cluster.id,
        },
    }


def _service(namespace: str, name: str, selector: Mapping[str, str], ports: Mapping[str, int]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(selector)},
        "spec": {
            "selector": dict(selector),
            "ports": [{"name": key, "port": port, "targetPort": port} for key, port in ports.items()],
        },
    }


def _deployment(
    namespace: str,
    name: str,
    image: str,
    *,
    labels: Mapping[str, str] | None = None,
    replicas: int = 1,
    command: list[str] | None = None,
    secret: bool = False,
) -> Object:
    labels = labels or {"app": name}
    pod = _pod(name, image, priority="system-cluster-critical", command=command, secret=secret)
    return _workload("Deployment", namespace, name, labels, pod, {"replicas": replicas})


def _daemon_set(
    namespace: str,
    name: str,
    image: str,
    *,
    labels: Mapping[str, str] | None = None,
    nodes: Mapping[str, str] | None = None,
    node_label_exists: str | None = None,
    secret: bool = False,
) -> Object:
    labels = labels or {"app": name}
    pod = _pod(name, image, priority="system-node-critical", secret=secret)
    # System workloads run on every node they are meant for, whatever its taints.
    pod["tolerations"] = [{"operator": "Exists"}]
    pod["nodeSelector"] = {SYSTEM_PODS: "true", **(nodes or {})}
    if node_label_exists:
        terms = [{"matchExpressions": [{"key": node_label_exists, "operator": "Exists"}]}]
        pod["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    return _workload("DaemonSet", namespace, name, labels, pod, {})


def _workload(
    kind: str, namespace: str, name: str, labels: Mapping[str, str], pod: Object, spec: Mapping[str, Any]
) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            **spec,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def _pod(name: str, image: str, *, priority: str, command: list[str] | None = None, secret: bool = False) -> Object:
    container: Object = {
        "name": name.replace(".", "-"),
        "image": image,
        # Small, but a pod that asks for a whole node's CPUs doesn't fit, as on a real node.
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
    }
    if command:
        container["command"] = command
    if secret:
        container["envFrom"] = [{"secretRef": {"name": "crusoe-secrets"}}]
    return {"priorityClassName": priority, "containers": [container]}


def _cluster_wide_policy(group: str, version: str, kind: str, plural: str, name: str) -> tuple[Object, Object]:
    """A vendor operator's cluster-wide settings: the definition, with free-form contents, and the one object."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}},
            ],
        },
    }
    policy = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, "spec": {}}
    return definition, policy
