"""Every family of the API. A new one is one line here."""

from localcloud.api import (
    autoclusters,
    compute,
    disks,
    firewall_rules,
    ib,
    kubernetes_addons,
    kubernetes_clusters,
    kubernetes_nodepools,
    kubernetes_versions,
    load_balancers,
    organizations,
    slurm_clusters,
    slurm_nodesets,
    supply,
    vpc_networks,
    vpc_subnets,
)
from localcloud.operations import Work

FAMILIES = (
    organizations.FAMILY,
    supply.FAMILY,
    vpc_networks.FAMILY,
    vpc_subnets.FAMILY,
    firewall_rules.FAMILY,
    ib.FAMILY,
    disks.FAMILY,
    kubernetes_versions.FAMILY,
    kubernetes_clusters.FAMILY,
    kubernetes_addons.FAMILY,
    kubernetes_nodepools.FAMILY,
    autoclusters.FAMILY,
    compute.FAMILY,
    load_balancers.FAMILY,
    slurm_clusters.FAMILY,
    slurm_nodesets.FAMILY,
)

WORKS: dict[str, Work] = {name: work for family in FAMILIES for name, work in family.works.items()}
