"""What slurm.conf is made from: settings, and what the platform knows of the pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.slurm.conf_settings import ConfSettings, PartitionSettings, TimingSettings, TopologySettings
from crusoe.rules.slurm_timing import POD_MARGIN

ALL = "all"
"""The partition over all pools that there is when the settings have none over several."""

OPERATORS_NODE_COUNT = 1024
"""MaxNodeCount that Slinky's operator writes; registering nodes beyond it are turned away."""


@dataclass(frozen=True)
class SlurmPool:
    """A node pool as Slurm sees it.

    Attributes:
        key: of the pool; its nodes have a feature of this name.
        gpus: of one node, 0 for a CPU pool.
        gres: name of the GPUs' type, None for a CPU pool.
        vendor: of the GPUs, `nvidia` or `amd`.
        cpus: of one node that jobs get: the limit of its pod. None where it is not known.
        memory_mib: the same for memory.
        most_nodes: that it may ever have.
        partition: settings of its own partition.
        features: more of them.
        weight: nodes of a lower one are taken first; None leaves it to Slurm, which takes 1.
    """

    key: str
    gpus: int = 0
    gres: str | None = None
    vendor: str | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    most_nodes: int = 0
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    features: tuple[str, ...] = ()
    weight: int | None = None


@dataclass(frozen=True)
class ConfPlan:
    """Everything that slurm.conf and the files beside it are made from.

    Attributes:
        pools: those that have workers, in the order of the settings.
        partitions: over several pools, by name.
        accounting: slurmdbd is there.
        metrics_user: the only user, beside root and Slurm's own, who may read the metrics; None leaves them off.
        health_check: path of a program in the worker's image; None for none.
    """

    pools: tuple[SlurmPool, ...]
    partitions: Mapping[str, PartitionSettings]
    timing: TimingSettings = field(default_factory=TimingSettings)
    topology: TopologySettings = field(default_factory=TopologySettings)
    conf: ConfSettings = field(default_factory=ConfSettings)
    accounting: bool = True
    metrics_user: str | None = None
    health_check: str | None = None

    @property
    def preemption(self) -> str:
        """What decides who gives way: `qos`, `partition` or `off`."""
        return self.conf.preemption or ("qos" if self.accounting else "off")

    @property
    def wide_partitions(self) -> Mapping[str, PartitionSettings]:
        """Each partition over several pools; without any in the settings, one without a list: it has all nodes.

        So another pool changes nothing in slurm.conf, and slurmctld is not restarted for it.
        """
        default = not any(pool.partition.default for pool in self.pools)
        return self.partitions or {ALL: PartitionSettings(default=default)}

    def pools_of(self, partition: PartitionSettings) -> tuple[SlurmPool, ...]:
        """The pools of a partition over several."""
        return tuple(pool for pool in self.pools if not partition.pools or pool.key in partition.pools)

    @property
    def most_nodes(self) -> int:
        """Nodes that all pools together may ever have."""
        return sum(pool.most_nodes for pool in self.pools)


def pod_grace(timing: TimingSettings) -> int:
    """Termination grace period of a worker's pod, in seconds."""
    return timing.pod_grace or timing.drain_budget + timing.kill_wait + POD_MARGIN


def unkillable_step_timeout(timing: TimingSettings) -> int:
    """Seconds after SIGKILL until a node whose processes do not end is drained."""
    return timing.unkillable_step_timeout or 2 * timing.kill_wait
