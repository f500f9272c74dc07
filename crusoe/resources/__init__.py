"""Crusoe Cloud's resources for Pulumi programs.

The plugin behind them is `crusoe/provider`; a program names it in its Pulumi.yaml under `plugins.providers`, or has
`pulumi-resource-crusoe` on the PATH. Every resource takes its logical name first and its inputs by keyword.
"""

from crusoe.resources.autoclusters import AutoClustersConfig, AutoClustersConfigInputs
from crusoe.resources.clusters import KubernetesCluster, KubernetesClusterInputs, Oidc
from crusoe.resources.generated import GeneratedSecret, GeneratedSecretInputs
from crusoe.resources.lookups import (
    Capacities,
    Capacity,
    IbNetwork,
    IbNetworkCapacity,
    IbNetworks,
    KubernetesVersion,
    KubernetesVersions,
    Quota,
    Quotas,
    VmType,
    VmTypes,
    get_capacities,
    get_capacities_output,
    get_ib_networks,
    get_ib_networks_output,
    get_kubernetes_versions,
    get_kubernetes_versions_output,
    get_quotas,
    get_quotas_output,
    get_vm_types,
    get_vm_types_output,
)
from crusoe.resources.networking import (
    IbPartition,
    IbPartitionInputs,
    NatGateway,
    VpcFirewallRule,
    VpcFirewallRuleInputs,
    VpcNetwork,
    VpcNetworkInputs,
    VpcSubnet,
    VpcSubnetInputs,
)
from crusoe.resources.node_pools import (
    Autoscaling,
    KubernetesNodePool,
    KubernetesNodePoolInputs,
    NodeTaint,
    Reservation,
)
from crusoe.resources.provider import Provider
from crusoe.resources.slinky import (
    SlurmReady,
    SlurmReadyInputs,
    SlurmReadyObject,
    SlurmWorkers,
    SlurmWorkersInputs,
)
from crusoe.resources.slurm import SlurmCluster, SlurmClusterInputs, SlurmNodeSet, SlurmNodeSetInputs
from crusoe.resources.storage import StorageDisk, StorageDiskInputs

__all__ = [
    "AutoClustersConfig",
    "AutoClustersConfigInputs",
    "Autoscaling",
    "Capacities",
    "Capacity",
    "GeneratedSecret",
    "GeneratedSecretInputs",
    "IbNetwork",
    "IbNetworkCapacity",
    "IbNetworks",
    "IbPartition",
    "IbPartitionInputs",
    "KubernetesCluster",
    "KubernetesClusterInputs",
    "KubernetesNodePool",
    "KubernetesNodePoolInputs",
    "KubernetesVersion",
    "KubernetesVersions",
    "NatGateway",
    "NodeTaint",
    "Oidc",
    "Provider",
    "Quota",
    "Quotas",
    "Reservation",
    "SlurmCluster",
    "SlurmClusterInputs",
    "SlurmNodeSet",
    "SlurmNodeSetInputs",
    "SlurmReady",
    "SlurmReadyInputs",
    "SlurmReadyObject",
    "SlurmWorkers",
    "SlurmWorkersInputs",
    "StorageDisk",
    "StorageDiskInputs",
    "VmType",
    "VmTypes",
    "VpcFirewallRule",
    "VpcFirewallRuleInputs",
    "VpcNetwork",
    "VpcNetworkInputs",
    "VpcSubnet",
    "VpcSubnetInputs",
    "get_capacities",
    "get_capacities_output",
    "get_ib_networks",
    "get_ib_networks_output",
    "get_kubernetes_versions",
    "get_kubernetes_versions_output",
    "get_quotas",
    "get_quotas_output",
    "get_vm_types",
    "get_vm_types_output",
]
