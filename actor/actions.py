"""What the actor can do, as plain values; `perform` does it."""

from dataclasses import dataclass

from actor.state import Job


@dataclass(frozen=True)
class Cordon:
    """Keep pods off a Kubernetes node, and tell Slinky's operator why."""

    node: str
    reason: str


@dataclass(frozen=True)
class Drain:
    """Keep jobs off a node of Slurm. Never `down`: a node whose slurmd lives would take jobs again a second later."""

    node: str
    reason: str


@dataclass(frozen=True)
class Undrain:
    """Let jobs onto a node of Slurm again."""

    node: str


@dataclass(frozen=True)
class Reserve:
    """Keep nodes for a job, and set it into the reservation. What runs on them already goes on."""

    job: Job
    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Rearrange:
    """Give a reservation other nodes."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Enter:
    """Set a job into a reservation; an empty name takes it out of the one that it is in."""

    job: Job
    name: str


@dataclass(frozen=True)
class Unreserve:
    """End a reservation."""

    name: str


@dataclass(frozen=True)
class Requeue:
    """End a job and put it back into the queue."""

    job: Job


@dataclass(frozen=True)
class Terminate:
    """Send SIGTERM to all processes of a job that can't start again, so that it saves what it has."""

    job: Job


@dataclass(frozen=True)
class Release:
    """Let a held job start."""

    job: Job


@dataclass(frozen=True)
class Note:
    """Write a job's AdminComment."""

    job: Job
    comment: str


@dataclass(frozen=True)
class Annotate:
    """Set an annotation of a Kubernetes node."""

    node: str
    key: str
    value: str


@dataclass(frozen=True)
class Remember:
    """Write a Slurm node's Extra."""

    node: str
    extra: str


@dataclass(frozen=True)
class Report:
    """Tell people: an event on the node and a line in the log.

    `kind` is what alerts look for, `reason` the event's reason, one word of a fixed list. Without a Kubernetes node,
    such as for a held job, only the line in the log is written.
    """

    kind: str
    reason: str
    text: str
    node: str = ""
    warning: bool = True


Action = (
    Cordon
    | Drain
    | Undrain
    | Reserve
    | Rearrange
    | Enter
    | Unreserve
    | Requeue
    | Terminate
    | Release
    | Note
    | Annotate
    | Remember
    | Report
)
