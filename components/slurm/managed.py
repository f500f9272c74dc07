"""Crusoe Managed Slurm: the service's Slurm cluster, its node sets, and who may use it.

Owns the Slurm cluster and its node sets, and inside the CMK cluster that Crusoe makes for it: who may reach the login
nodes, the users and their groups, and that AutoClusters repairs nothing unasked. Leaves alone everything that Crusoe's
operator runs there.

What breaks if violated: Crusoe changes no setting of such a cluster, so a change is refused in the preview, or, by
consent, replaces it with its queue and /home. From its creation until the ranges are set a moment later its login nodes
are open to the world; there is no way to ask for ranges at creation.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from components.kubernetes import KubernetesObject, cluster_provider
from components.naming import physical_name
from components.network import Network
from components.slurm import expected
from components.slurm.charts import NAMESPACE
from components.slurm.managed_settings import ManagedNodeSetSettings
from components.slurm.people import UserSettings
from components.slurm.settings import SlurmSettings
from crusoe import catalog
from crusoe.resources import AutoClustersConfig, SlurmCluster, SlurmNodeSet

API_VERSION = "slurm.crusoe.ai/v1alpha1"


def login_patch(slurm: SlurmSettings, network_cidr: str) -> dict[str, Any]:
    """Who may reach the login nodes: the named networks, or, with none, only the platform's own."""
    return {"loginSet": {"firewallRuleSourceRanges": list(slurm.login.cidrs) or [network_cidr]}}


def user(settings: UserSettings, cluster: str) -> dict[str, Any]:
    """A user. Crusoe's image lets everybody become root unless told not to."""
    return {
        "clusterReference": cluster,
        **({"fullName": settings.full_name} if settings.full_name else {}),
        "sshPublicKeys": list(settings.keys),
        "disableSudo": not settings.sudo,
    }


def group(members: list[str], cluster: str) -> dict[str, Any]:
    """A group with its users."""
    return {"clusterReference": cluster, "users": members}


class ManagedSlurm(pulumi.ComponentResource):
    """Slurm as Crusoe's service.

    Attributes:
        login_host: address of the login nodes.
        cluster: the Slurm cluster.
        kubeconfig: of the CMK cluster behind it, an administrator's; a secret.
        expected: what it is to have; see components.slurm.expected.
        node_sets: each node set, by its key in the settings.
    """

    login_host: pulumi.Output[str]
    cluster: SlurmCluster
    kubeconfig: pulumi.Output[str]
    expected: Mapping[str, object]
    node_sets: Mapping[str, SlurmNodeSet]

    def __init__(
        self,
        name: str,
        slurm: SlurmSettings,
        *,
        stack: str,
        network: Network,
        location: str,
        protect: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the Slurm cluster in `network`. The crusoe provider comes with `opts`."""
        super().__init__("gpuplatform:slurm:Managed", name, None, opts)
        managed = slurm.managed
        if managed is None:
            raise ValueError("settings of Crusoe Managed Slurm were not given")
        self._name, self._stack, self._network = name, stack, network
        physical = physical_name(stack, "slurm", managed.name)
        self.cluster = SlurmCluster(
            f"{name}-cluster",
            name=physical.value,
            location=location,
            root_ssh_public_keys=slurm.login.root_keys,
            subnet_id=network.subnet.id,
            login_node_type=managed.login_node_type,
            login_replicas=slurm.login.replicas,
            home_volume_size=managed.home_size,
            replace_on_change=managed.replace_on_change,
            adopt_existing=physical.adopt_existing,
            opts=pulumi.ResourceOptions(parent=self, protect=protect, depends_on=network.foundation),
        )
        repairs = AutoClustersConfig(
            f"{name}-autoclusters",
            cluster_id=self.cluster.kubernetes_cluster_id,
            remediation_actions={},
            opts=pulumi.ResourceOptions(parent=self, deleted_with=self.cluster),
        )
        self.kubeconfig = pulumi.Output.secret(self.cluster.kubeconfig)
        self._kubernetes = cluster_provider(name, self.kubeconfig, self)
        closed = self._inside(
            f"{name}-login-ranges",
            "SlurmCluster",
            {"name": physical.value, "namespace": NAMESPACE},
            login_patch(slurm, network.cidr),
            patch=True,
        )
        self._people(slurm, physical.value)
        after: list[pulumi.Resource] = [repairs, closed]
        self.node_sets = {
            key: self._node_set(key, each, after, protect=protect) for key, each in managed.node_sets.items()
        }
        self.login_host = self.cluster.login_host
        self.expected = expected.managed(managed, physical.value)
        self.register_outputs({"loginHost": self.login_host, "nodeSets": list(self.node_sets)})

    def _node_set(
        self, key: str, settings: ManagedNodeSetSettings, after: list[pulumi.Resource], *, protect: bool
    ) -> SlurmNodeSet:
        kind = catalog.vm_type(settings.type)
        partition = self._network.ib_partition if kind and kind.fabric == "infiniband" else None
        return SlurmNodeSet(
            f"{self._name}-nodes-{key}",
            slurm_cluster_id=self.cluster.id,
            name=settings.name or key,
            type=settings.type,
            count=settings.count,
            subnet_id=self._network.subnet.id,
            transport_partition_id=settings.transport_partition_id or (partition.id if partition else None),
            vm_ssh_public_key=settings.ssh_public_key,
            allow_scale_down=settings.allow_scale_down,
            adopt_existing=settings.name is None,
            opts=pulumi.ResourceOptions(parent=self, protect=protect, depends_on=after),
        )

    def _people(self, slurm: SlurmSettings, cluster: str) -> None:
        users, groups = slurm.people.users, slurm.people.groups
        declared: list[pulumi.Resource] = [
            self._inside(f"{self._name}-user-{key}", "SlurmUser", _named(key), user(each, cluster))
            for key, each in users.items()
        ]
        for key in groups:
            members = [name for name, each in users.items() if key in each.groups]
            self._inside(f"{self._name}-group-{key}", "SlurmUserGroup", _named(key), group(members, cluster), declared)

    def _inside(
        self,
        name: str,
        kind: str,
        metadata: Mapping[str, Any],
        spec: Mapping[str, Any],
        after: list[pulumi.Resource] | None = None,
        *,
        patch: bool = False,
    ) -> KubernetesObject:
        """An object in the CMK cluster behind the Slurm cluster, which goes with it."""
        options = pulumi.ResourceOptions(
            parent=self,
            provider=self._kubernetes,
            deleted_with=self.cluster,
            replacement_trigger=self.cluster.kubernetes_cluster_id,
            delete_before_replace=True,
            depends_on=after,
        )
        return KubernetesObject(name, API_VERSION, kind, metadata, {"spec": spec}, options, patch=patch)


def _named(name: str) -> dict[str, str]:
    return {"name": name, "namespace": NAMESPACE}
