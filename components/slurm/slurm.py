"""Slurm in one of its two modes: in the platform's own cluster, or as Crusoe's service."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import pulumi

from components.cluster import Cluster
from components.network import Network
from components.node_pools import Pool
from components.slurm import expected
from components.slurm import plan as plans
from components.slurm.conf_plan import ConfPlan, SlurmPool
from components.slurm.managed import ManagedSlurm
from components.slurm.plan import Sizes, WorkerPlan
from components.slurm.settings import SlurmSettings
from components.slurm.slinky import Slinky
from components.storage import DiskSettings
from crusoe.resources import StorageDisk, get_vm_types
from crusoe.resources.provider import Provider
from crusoe.rules.finding import Finding


class Sharing(Protocol):
    """Who shares some pools between Slurm and others."""

    def findings(self, sizes: Sizes) -> Iterator[Finding]:
        """Check what only the cloud knows."""
        ...

    def split(self, worker: WorkerPlan, pool: SlurmPool, plan: ConfPlan) -> Sequence[WorkerPlan]:
        """Make the NodeSets of a pool; see components.slurm.plan."""
        ...

    def programs(self, nodes: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Declare what has to stand before the first pod, on nodes that do."""
        ...

    def guards(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Declare what has to stand before the first worker, once Slurm's namespace and the programs do."""
        ...


class Slurm(pulumi.ComponentResource):
    """What machine-learning engineers submit their jobs to.

    Attributes:
        login_host: address of the login nodes; empty where only `kubectl exec` leads in.
        expected: what it is to have; see components.slurm.expected.
        kubeconfig: of the cluster behind Managed Slurm, a secret; empty where Slurm is in the platform's own.
    """

    login_host: pulumi.Output[str]
    expected: Mapping[str, object]
    kubeconfig: pulumi.Input[str]

    def __init__(
        self,
        name: str,
        slurm: SlurmSettings,
        *,
        stack: str,
        cluster: Cluster,
        network: Network,
        provider: Provider,
        pools: Mapping[str, Pool],
        disks: Mapping[str, StorageDisk],
        disk_settings: Mapping[str, DiskSettings],
        after: Sequence[pulumi.Resource],
        location: str,
        protect: bool,
        secrets: Callable[[str], pulumi.Output[str]],
        sharing: Sharing | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare Slurm in the mode of the settings, once `after` (the node pools) stands."""
        super().__init__("gpuplatform:slurm:Slurm", name, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        if slurm.mode == "managed":
            managed = ManagedSlurm(
                f"{name}-managed",
                slurm,
                stack=stack,
                network=network,
                location=location,
                protect=protect,
                opts=own,
            )
            self.login_host = managed.login_host
            self.expected, self.kubeconfig = managed.expected, managed.kubeconfig
        else:
            known = get_vm_types(opts=pulumi.InvokeOptions(parent=self, provider=provider)).vm_types
            sizes = {each.name: each for each in known}
            if faults := [*sharing.findings(sizes)] if sharing else []:
                lines = "\n".join(f"  {fault}" for fault in faults)
                raise pulumi.RunError(f"the settings of stack {stack} do not fit its VM types:\n{lines}")
            split = sharing.split if sharing else plans.undivided
            plan = plans.slinky(slurm, pools, disk_settings, sizes, stack=stack, split=split)
            slinky = Slinky(
                f"{name}-slinky",
                plan,
                stack=stack,
                cluster=cluster,
                network=network,
                disks=disks,
                after=after,
                location=location,
                protect=protect,
                secrets=secrets,
                programs=sharing.programs(after) if sharing else [],
                guards=sharing.guards if sharing else None,
                opts=own,
            )
            self.login_host = slinky.login_host
            self.expected, self.kubeconfig = expected.slinky(slurm, plan, pools), ""
        self.register_outputs({"loginHost": self.login_host})
