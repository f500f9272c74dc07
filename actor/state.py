"""What the actor sees: plain values, which `read` makes from what the two APIs answer. Times are seconds since 1970."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_UNUSABLE = frozenset(
    {
        *("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "UNKNOWN", "ERROR", "FUTURE", "BLOCKED"),
        *("MAINTENANCE", "RESERVED", "PLANNED", "REBOOT_ISSUED", "REBOOT_REQUESTED", "POWERED_DOWN", "POWERING_DOWN"),
    }
)
_ON_NODES = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED"})
_OVER = frozenset(
    {
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
        *("OUT_OF_MEMORY", "LAUNCH_FAILED", "REVOKED"),
    }
)


@dataclass(frozen=True)
class Mark:
    """A thing that says that a node is broken: `id` differs for each event, `text` is for people.

    `since` is when it began, seconds since 1970; 0 where it doesn't say.
    """

    id: str
    text: str
    since: int = 0


@dataclass(frozen=True)
class KubeNode:
    """A node of Kubernetes.

    Attributes:
        instance: id of its VM; another one is another machine, whatever its name.
        marks: of AutoClusters, and conditions that are True, by type.
    """

    name: str
    instance: str = ""
    pool: str = ""
    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    remediation: Mark | None = None
    conditions: Mapping[str, Mark] = field(default_factory=dict[str, Mark])


@dataclass(frozen=True)
class Worker:
    """A worker's pod. `node` is the name of its Kubernetes node, `slurm_name` of its node in Slurm.

    `started` is when it began on this machine, `ready` since when it is ready; None when it is not.
    """

    name: str
    slurm_name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    started: int = 0
    ready: int | None = None


@dataclass(frozen=True)
class SlurmNode:
    """A node of Slurm. `extra` is free text of the node that Slurm keeps over restarts of all daemons."""

    name: str
    states: frozenset[str] = frozenset({"IDLE"})
    reason: str = ""
    reason_at: int = 0
    extra: str = ""
    partitions: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    gres: str = ""
    topology: str = ""
    last_busy: int = 0

    @property
    def draining(self) -> bool:
        """Whether it takes no new jobs because somebody said so."""
        return "DRAIN" in self.states

    @property
    def free(self) -> bool:
        """Whether a job could start on the whole of it now."""
        return "IDLE" in self.states and not self.states & _UNUSABLE

    @property
    def reachable(self) -> bool:
        """Whether its slurmd answers."""
        return not self.states & {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE"}


@dataclass(frozen=True)
class Job:
    """A job, or one member of a job array.

    Attributes:
        id: its own number, by which it alone is updated.
        step_id: how it is requeued: `12`, or `12_3` for a member, since the bare number may mean the whole array.
        nodes: that it has now.
        requeueable: a batch job that may start again.
        comment: administrators' comment, where notes are kept.
        moved_at: for a requeued job, when it may start at the earliest.
        failed: its last end had an exit code or a signal.
        mail: what its owner wants to be told (`--mail-type`), in Slurm's words.
        submitted: of a requeued job, when it was requeued (measured with 26.05).
        exit: exit code of its last end, or 128 and the signal's number.
        node_list: `nodes` as Slurm writes them.
        said: the Comment, which is the user's own.
    """

    id: int
    step_id: str
    states: frozenset[str] = frozenset({"RUNNING"})
    nodes: tuple[str, ...] = ()
    node_count: int = 1
    requeueable: bool = True
    restarts: int = 0
    held: bool = False
    description: str = ""
    reservation: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    comment: str = ""
    moved_at: int = 0
    failed: bool = False
    name: str = ""
    mail: frozenset[str] = frozenset()
    submitted: int = 0
    started: int = 0
    ended: int = 0
    exit: int = 0
    reason: str = ""
    node_list: str = ""
    said: str = ""

    @property
    def running(self) -> bool:
        """Whether it works on its nodes, and does not end already."""
        return bool(self.states & _ON_NODES) and "COMPLETING" not in self.states

    @property
    def pending(self) -> bool:
        """Whether it waits for its start."""
        return "PENDING" in self.states

    @property
    def over(self) -> bool:
        """Whether it will never start again."""
        return bool(self.states & _OVER) and not self.pending


@dataclass(frozen=True)
class Reservation:
    """A reservation of Slurm."""

    name: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """Everything at one moment."""

    now: int
    nodes: Mapping[str, KubeNode] = field(default_factory=dict[str, KubeNode])
    workers: Sequence[Worker] = ()
    slurm: Mapping[str, SlurmNode] = field(default_factory=dict[str, SlurmNode])
    jobs: Sequence[Job] = ()
    reservations: Mapping[str, Reservation] = field(default_factory=dict[str, Reservation])
