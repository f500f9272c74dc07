"""What the local cloud asks of whatever runs the Kubernetes control planes of its CMK clusters.

The REST side (this package) owns every fact: which clusters, pools and VMs exist, how nodes are named, labelled and
tainted, and which extended resources they carry (an add-on that is not installed brings none). A `ControlPlane` only
makes that visible in Kubernetes, so it can be swapped: kwokctl for the real thing, `NoControlPlane` where only the REST
API is of interest.

Rules for implementations:

* Every method blocks and is called from worker threads. Calls for different clusters, and node calls of one cluster,
  may overlap; `create`, `delete` and `ensure_running` of one cluster never do.
* Every method can be repeated. The local cloud may be killed at any moment and then starts the same step again, so
  `create` finishes or redoes a half-made control plane, `delete` of an absent one succeeds, `apply_nodes` of an
  existing node corrects it.
* Nothing is kept in memory that another process would need: `stop_all` and `delete_all` are also called by the command
  line after the server was killed.
* Failures are `ControlPlaneError`, in one or two sentences without secrets. Every wait is bounded.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from localcloud.managed_slurm.records import SlurmSpec, SlurmStatus

Generation = Literal["v1", "v2"]
AuthType = Literal["admin_cert", "oidc"]


class ControlPlaneError(Exception):
    """A control plane did not do what was asked; the text says what happened, where, and what to do."""


@dataclass(frozen=True)
class OidcSpec:
    """OIDC settings of the API server, as in `auth_config.oidc` of the create call."""

    issuer_url: str
    client_id: str
    username_claim: str = "sub"
    username_prefix: str | None = None
    groups_claim: str | None = None
    ca_cert: str | None = None


@dataclass(frozen=True)
class ClusterSpec:
    """One CMK cluster, with every default already filled in."""

    id: str
    name: str
    project_id: str
    location: str
    version: str
    generation: Generation
    dns_name: str
    cluster_cidr: str
    service_cluster_ip_range: str
    node_cidr_mask_size: int
    private: bool = False
    add_ons: tuple[str, ...] = ()
    oidc: OidcSpec | None = None
    apiserver_extra_args: Mapping[str, str] = field(default_factory=dict[str, str])
    scheduler_extra_args: Mapping[str, str] = field(default_factory=dict[str, str])
    controller_manager_extra_args: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def kubernetes_version(self) -> str:
        """The version without Crusoe's build suffix, such as `1.33.4`."""
        return self.version.split("-", 1)[0]

    @property
    def api_address(self) -> str:
        """The cluster IP of the Service `kubernetes`: the first of its range, at which pods find the API server.

        Raises ControlPlaneError for a range that is none.
        """
        try:
            return str(ipaddress.IPv4Network(self.service_cluster_ip_range)[1])
        except (ValueError, IndexError):
            raise ControlPlaneError(
                f"The range of Services of cluster {self.name}, {self.service_cluster_ip_range!r}, is no IPv4 range."
            ) from None


@dataclass(frozen=True)
class Taint:
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True)
class NodeSpec:
    """One VM of a node pool, as it should appear as a Node.

    `cpu` counts vCPUs, `memory_gb` and `ephemeral_storage_gb` are gigabytes. `labels` are complete except for what
    the kubelet itself would add (`kubernetes.io/hostname`, `kubernetes.io/os`, `kubernetes.io/arch`).
    `extended_resources` holds for example `{"nvidia.com/gpu": 8}`; it is empty when no installed add-on brings them.
    """

    name: str
    instance_id: str
    node_pool_id: str
    vm_type: str
    architecture: Literal["amd64", "arm64"]
    cpu: int
    memory_gb: int
    ephemeral_storage_gb: int
    gpus: int
    gpu_resource: str | None
    extended_resources: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    internal_ip: str
    external_ip: str | None
    version: str


@dataclass(frozen=True)
class NodeStatus:
    """A Node as Kubernetes reports it."""

    name: str
    ready: bool
    schedulable: bool


@dataclass(frozen=True)
class ClusterCredentials:
    """What get-credentials hands out: certificates and keys PEM text, `kube_config` YAML with all of it inline."""

    cluster_name: str
    cluster_address: str
    cluster_ca_certificate: str
    user_name: str
    user_client_certificate: str
    user_client_key: str
    kube_config: str


class ControlPlane(Protocol):
    """Runs the control planes of all clusters of one state folder."""

    @property
    def instant(self) -> bool:
        """Whether calls return at once, so that an operation may finish within the request that started it."""
        ...

    def create(self, cluster: ClusterSpec) -> None:
        """Bring the control plane up and return when its API answers, add-on objects included."""
        ...

    def ensure_running(self, cluster: ClusterSpec) -> None:
        """Start the control plane again with its data if it isn't running (after a stop, a reboot or a kill)."""
        ...

    def ended(self, cluster_id: str) -> Sequence[str]:
        """Names of the components that don't run; cheap, and it starts nothing."""
        ...

    def update(self, cluster: ClusterSpec) -> None:
        """Make changed `add_ons` true on a running control plane. (Extra arguments wait for a rotation.)"""
        ...

    def delete(self, cluster_id: str) -> None:
        """End the control plane's processes and remove its data."""
        ...

    def credentials(self, cluster: ClusterSpec, auth_type: AuthType) -> ClusterCredentials:
        """A kubeconfig with a client certificate of its own, new on every call; without one for `oidc`."""
        ...

    def apply_nodes(self, cluster_id: str, nodes: Sequence[NodeSpec]) -> None:
        """Create or correct these nodes and return when they are Ready. Other nodes are left alone."""
        ...

    def remove_nodes(self, cluster_id: str, names: Collection[str], *, drain: bool) -> None:
        """Delete these nodes; with `drain`, cordon them and evict their pods first, within a bound."""
        ...

    def nodes(self, cluster_id: str) -> list[NodeStatus]:
        """Every node of the cluster."""
        ...

    def slurm(self, cluster_id: str, wanted: SlurmSpec) -> SlurmStatus:
        """Make a managed Slurm cluster true in the cluster, wait for nothing, and answer what runs of it."""
        ...

    def stop_all(self) -> None:
        """End all processes of all clusters of the state folder, and keep the data."""
        ...

    def delete_all(self) -> None:
        """End all processes and remove the data of all clusters of the state folder."""
        ...


class NoControlPlane:
    """Keeps nodes in memory and runs nothing: for tests of the REST API."""

    instant = True

    def __init__(self) -> None:
        """Start without clusters."""
        self.clusters: dict[str, ClusterSpec] = {}
        self.node_specs: dict[str, dict[str, NodeSpec]] = {}
        self.drained: set[str] = set()
        self.slurm_specs: dict[str, SlurmSpec] = {}
        self.slurm_pods: int | None = None
        self._issued = 0

    def create(self, cluster: ClusterSpec) -> None:
        """Remember the cluster."""
        self.clusters[cluster.id] = cluster
        self.node_specs.setdefault(cluster.id, {})

    def ensure_running(self, cluster: ClusterSpec) -> None:
        """Remember the cluster."""
        self.create(cluster)

    def ended(self, cluster_id: str) -> Sequence[str]:
        """All of a cluster that isn't remembered."""
        return () if cluster_id in self.clusters else ("kube-apiserver",)

    def update(self, cluster: ClusterSpec) -> None:
        """Remember the cluster's new values."""
        self.clusters[cluster.id] = cluster

    def delete(self, cluster_id: str) -> None:
        """Forget the cluster and its nodes."""
        self.clusters.pop(cluster_id, None)
        self.node_specs.pop(cluster_id, None)
        self.slurm_specs.pop(cluster_id, None)

    def credentials(self, cluster: ClusterSpec, auth_type: AuthType) -> ClusterCredentials:
        """Well-formed texts that open nothing."""
        self._issued += 1
        return ClusterCredentials(
            cluster_name=cluster.name,
            cluster_address="https://127.0.0.1:1",
            cluster_ca_certificate="-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n",
            user_name=f"admin-{self._issued}" if auth_type == "admin_cert" else "oidc",
            user_client_certificate="",
            user_client_key="",
            kube_config="apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
        )

    def apply_nodes(self, cluster_id: str, nodes: Sequence[NodeSpec]) -> None:
        """Keep the nodes."""
        self.node_specs.setdefault(cluster_id, {}).update({node.name: node for node in nodes})

    def remove_nodes(self, cluster_id: str, names: Collection[str], *, drain: bool) -> None:
        """Drop the nodes and remember which were to be drained; there are no pods."""
        if drain:
            self.drained.update(names)
        for name in names:
            self.node_specs.get(cluster_id, {}).pop(name, None)

    def nodes(self, cluster_id: str) -> list[NodeStatus]:
        """Every kept node, Ready."""
        return [NodeStatus(name, ready=True, schedulable=True) for name in self.node_specs.get(cluster_id, {})]

    def slurm(self, cluster_id: str, wanted: SlurmSpec) -> SlurmStatus:
        """Keep the specification; a pod runs on every node, or on `slurm_pods` nodes of each pool at most."""
        self.slurm_specs[cluster_id] = wanted

        def on(pool_id: str, most: int) -> int:
            nodes = sum(node.node_pool_id == pool_id for node in self.node_specs.get(cluster_id, {}).values())
            return min(nodes, most, nodes if self.slurm_pods is None else self.slurm_pods)

        login = on(wanted.login_pool, wanted.login_replicas)
        ready = {node_set.name: on(node_set.pool_id, node_set.replicas) for node_set in wanted.node_sets}
        return SlurmStatus("198.18.0.1" if login else "", login, controller_ready=login > 0, ready=ready)

    def stop_all(self) -> None:
        """Nothing runs."""

    def delete_all(self) -> None:
        """Forget everything."""
        self.clusters.clear()
        self.node_specs.clear()
