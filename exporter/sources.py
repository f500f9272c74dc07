"""What each source says, as plain values. Times are seconds since 1970, 0 where there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from actor.state import Job, KubeNode, SlurmNode

Name = Literal["autoclusters", "crusoe", "slurm", "kubernetes"]
"""AutoClusters' history and configuration; the rest of Crusoe's API; slurmrestd; the cluster's API server."""

NAMES: tuple[Name, ...] = ("autoclusters", "crusoe", "slurm", "kubernetes")


@dataclass(frozen=True)
class Operation:
    """An operation of AutoClusters' history. `state` is IN_PROGRESS, SUCCEEDED or FAILED."""

    id: str
    state: str
    vm: str = ""
    issue: str = ""
    kind: str = ""
    started: float = 0.0
    completed: float = 0.0


@dataclass(frozen=True)
class AutoClusters:
    """What AutoClusters has done, and what it does about each issue."""

    operations: Sequence[Operation] = ()
    actions: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class CloudPool:
    """A node pool in Crusoe's API; `running` are VMs that run."""

    name: str
    wanted: int = 0
    running: int = 0


@dataclass(frozen=True)
class Quota:
    """A quota by its name in the API, in the API's unit."""

    name: str
    used: float
    limit: float


@dataclass(frozen=True)
class Crusoe:
    """Pools, quotas, and free hosts by VM type."""

    pools: Sequence[CloudPool] = ()
    quotas: Sequence[Quota] = ()
    free: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Slurm:
    """Slurm's nodes and jobs; `token_expires` is when the exporter's token ends."""

    nodes: Sequence[SlurmNode] = ()
    jobs: Sequence[Job] = ()
    token_expires: float = 0.0


@dataclass(frozen=True)
class Machine:
    """A node of Kubernetes.

    Attributes:
        gpus: that Kubernetes can give to pods.
        slurm_name: of the node of Slurm that its worker is; empty for none.
        leaf: its leaf in the network, or `none`.
        issue: AutoClusters' name of what a condition or a mark says is wrong, such as `XID_79`; `none` for nothing.
    """

    node: KubeNode
    gpus: int = 0
    ready: bool = True
    slurm_name: str = ""
    leaf: str = "none"
    issue: str = "none"


@dataclass(frozen=True)
class Asked:
    """GPUs that the pods of a namespace hold, and those that its waiting pods ask for."""

    held: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class Kubernetes:
    """Nodes, GPUs by namespace, and workers on borrowed nodes by the pool's key."""

    machines: Sequence[Machine] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict[str, Asked])
    lent: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class View:
    """What was said lately. A source that said nothing lately is None.

    Attributes:
        succeeded: when each source last answered, by its name.
        configured: the sources that are asked.
        refused: credentials that were refused at the last try (`crusoe-api-key`, `slurm-token`).
    """

    autoclusters: AutoClusters | None = None
    crusoe: Crusoe | None = None
    slurm: Slurm | None = None
    kubernetes: Kubernetes | None = None
    succeeded: Mapping[Name, float] = field(default_factory=dict[Name, float])
    configured: frozenset[Name] = frozenset()
    refused: frozenset[str] = frozenset()
