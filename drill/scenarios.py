"""What can be drilled: a declarative table, each with its expected outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from drill.verdict import Expected

STEPS, INTERVAL = 120, 20
"""Steps of the job and steps between two checkpoints."""

AT_STEP = 42
"""Where the failure comes, and about ten steps later it is there: in an interval, so that what is lost can be seen."""

REPAIRED = ("XID_48", "XID_79")
"""Issues that AutoClusters repairs for as long as a drill on the local cloud lasts."""

Whose = Literal["batch", "other"]
"""The node with the job's batch script, or the other one."""


@dataclass(frozen=True)
class GpuFault:
    """The GPU of a rank has an XID error, and the rank crashes, blocks in a call to it, or works on."""

    xid: int = 79
    whose: Whose = "other"
    rank: Literal["crashes", "blocks", "works"] = "crashes"


@dataclass(frozen=True)
class Power:
    """A node loses its power, silently, or has it again."""

    on: bool = False
    whose: Whose = "other"


@dataclass(frozen=True)
class Link:
    """A node's network link is cut, or is there again."""

    up: bool = False
    whose: Whose = "other"


@dataclass(frozen=True)
class SignalRank:
    """A signal reaches the last rank of a node."""

    signal: Literal["KILL", "STOP"] = "KILL"


@dataclass(frozen=True)
class Capacity:
    """So many spare machines are left."""

    spares: int = 0


@dataclass(frozen=True)
class Action:
    """What AutoClusters does about an issue."""

    issue: str
    action: Literal["REPLACE_NODE", "OFF"]


@dataclass(frozen=True)
class OptOut:
    """The workers' pods forbid the replacement of their nodes."""


@dataclass(frozen=True)
class Tear:
    """The newest checkpoint loses half of a file, as after a crash before everything was on the disk."""


@dataclass(frozen=True)
class Fillers:
    """Small jobs wait for nodes, each for a whole one."""

    jobs: int = 20


@dataclass(frozen=True)
class Detection:
    """AutoClusters sees a fault only after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Beside:
    """Another job runs on the node with the batch script, on GPUs that are left."""


@dataclass(frozen=True)
class Cancel:
    """The user cancels the job."""


@dataclass(frozen=True)
class KillDaemons:
    """slurmctld and slurmrestd are killed without a word."""


@dataclass(frozen=True)
class Maintenance:
    """A person cordons a node, as before an update of its kernel."""


@dataclass(frozen=True)
class BadReplacement:
    """The machine that replaced a failed one has a GPU that is off the bus, too."""

    xid: int = 79


@dataclass(frozen=True)
class Storage:
    """The last rank of a node can't write its part of a checkpoint any more, or can again."""

    full: bool = True
    whose: Whose = "other"


@dataclass(frozen=True)
class TimeLimit:
    """An operator sets the job's time limit, so that its end is near, or is not any more."""

    minutes: int
    near: bool = True


Deed = (
    GpuFault
    | Power
    | Link
    | SignalRank
    | Capacity
    | Action
    | OptOut
    | Tear
    | Fillers
    | Detection
    | Beside
    | Cancel
    | KillDaemons
    | Maintenance
    | BadReplacement
    | Storage
    | TimeLimit
)


@dataclass(frozen=True)
class Do:
    """A deed and its moment: at a step of the training, or after a stage, or before the job is submitted."""

    deed: Deed
    at_step: int | None = None
    after: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One drill.

    Attributes:
        what: what fails, in one sentence.
        outcome: what has to come of it, in one sentence.
        trains: whether the job has to end, with the losses of the undisturbed run.
        options, environ: of the job, and variables that it finds.
        seconds: until it is given up.
        only: what it needs: `local` for the local cloud's means, `any` for what a person can do on real machines.
        pool_type: a VM type that a pool of the stack's settings gets instead of its own; then no job runs, since the
            settings have to be refused.
    """

    name: str
    what: str
    outcome: str
    plan: Sequence[Do]
    expected: Expected
    trains: bool = True
    options: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    seconds: float = 300.0
    only: Literal["local", "any"] = "local"
    pool_type: str | None = None


SHORT_SHUTDOWN = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "10"}
"""What torchrun gives its ranks after SIGTERM, in seconds; the job has 80 otherwise."""

TOLD = ("training", "fault", "told")
REPAIR = (*TOLD, "isolated", "evicted", "replaced", "ready", "returned")
ANSWER = ("isolated", "answered")
AGAIN = ("fault", "requeued", "started", "resumed", "stepping", "completed")
# The node's own health check may drain it before anybody else does.
FULL = (REPAIR, ANSWER, ("fault", "drained"), AGAIN)

SCENARIOS: Sequence[Scenario] = (
    Scenario(
        name="default",
        what="A GPU falls off the bus (XID 79); the rank that uses it crashes before anybody else knows.",
        outcome="AutoClusters replaces the node, the job starts again from its newest checkpoint, and every loss is "
        "the undisturbed run's.",
        plan=(Do(GpuFault(79), at_step=AT_STEP),),
        expected=Expected(
            (*FULL, ("fault", "lost", "requeued")), most_lost=INTERVAL, resume_seconds=30.0, own_seconds=2.0
        ),
        only="any",
    ),
    Scenario(
        name="blocked",
        what="The same, but the rank blocks in a call that neither SIGTERM nor SIGCONT ends.",
        outcome="As by default; the job ends only when torchrun kills the rank, so it takes that much longer.",
        plan=(Do(GpuFault(79, rank="blocks"), at_step=AT_STEP),),
        expected=Expected(FULL, most_lost=INTERVAL, own_seconds=2.0),
        seconds=400.0,
    ),
    Scenario(
        name="polite",
        what="A GPU has memory errors that its work survives (XID 48).",
        outcome="As by default, but every rank saves at SIGTERM, so no step is lost.",
        plan=(Do(GpuFault(48, rank="works"), at_step=AT_STEP),),
        expected=Expected(FULL, absent=("lost",), most_lost=0, resume_seconds=30.0, own_seconds=2.0),
        only="any",
    ),
    Scenario(
        name="power-loss",
        what="A node loses its power, and nothing reports it; its peers see their connections end.",
        outcome="Slurm finds the node silent (slurmdTimeout), requeues the job and starts it when the node is back.",
        plan=(Do(Power(), at_step=AT_STEP), Do(Power(on=True), after="requeued")),
        expected=Expected((("training", "fault"), AGAIN), absent=("isolated", "replaced"), most_lost=INTERVAL),
        seconds=400.0,
    ),
    Scenario(
        name="link-cut",
        what="A node lives, but its network link is cut.",
        outcome="As with a power loss.",
        plan=(Do(Link(), at_step=AT_STEP), Do(Link(up=True), after="requeued", seconds=5.0)),
        expected=Expected((("training", "fault"), AGAIN), absent=("isolated", "replaced"), most_lost=INTERVAL),
        seconds=400.0,
    ),
    Scenario(
        name="rank-crash",
        what="One rank is killed; no machine is broken.",
        outcome="The job requeues itself; nobody drains or replaces a node.",
        plan=(Do(SignalRank(), at_step=AT_STEP),),
        expected=Expected((AGAIN,), absent=("told", "isolated", "drained", "replaced"), most_lost=INTERVAL),
    ),
    Scenario(
        name="hang",
        what="One rank hangs; no machine is broken.",
        outcome="The process group's timeout ends the attempt, and the job requeues itself.",
        plan=(Do(SignalRank(signal="STOP"), at_step=AT_STEP),),
        expected=Expected((AGAIN,), absent=("told", "isolated", "replaced"), most_lost=INTERVAL),
        options=("--group-timeout=15",),
        environ=SHORT_SHUTDOWN,
        seconds=400.0,
    ),
    Scenario(
        name="two-failures",
        what="A GPU has memory errors, and when the job runs again, one of another node's too.",
        outcome="Both nodes are replaced, and the job completes.",
        plan=(Do(GpuFault(48, rank="works"), at_step=40), Do(GpuFault(48, "batch", rank="works"), at_step=80)),
        expected=Expected(FULL, most_lost=0, attempts=2),
        seconds=400.0,
    ),
    Scenario(
        name="no-spare",
        what="A GPU has memory errors, and there is no spare machine until the repair has failed.",
        outcome="The repair fails and says so, the job waits; with a new machine both go on by themselves.",
        plan=(
            Do(Capacity(0)),
            Do(GpuFault(48, rank="works"), at_step=AT_STEP),
            Do(Capacity(4), after="stalled", seconds=5.0),
        ),
        expected=Expected(
            ((*TOLD, "isolated", "failed", "stalled", "replaced", "ready", "returned"), ANSWER, AGAIN), most_lost=0
        ),
    ),
    Scenario(
        name="torn-checkpoint",
        what="A GPU falls off the bus, and the newest checkpoint is torn.",
        outcome="The job loads the one before: up to two intervals are lost, and no loss differs.",
        plan=(Do(GpuFault(79), at_step=AT_STEP), Do(Tear(), after="lost")),
        expected=Expected((*FULL, ("fault", "lost", "requeued")), most_lost=2 * INTERVAL),
    ),
    Scenario(
        name="long-save",
        what="A GPU has memory errors, and a save takes 15 s, of which a warned rank has 10.",
        outcome="The last save is cut off and skipped; the one before is loaded.",
        plan=(Do(GpuFault(48, rank="works"), at_step=AT_STEP),),
        expected=Expected(FULL, most_lost=AT_STEP * 2),
        options=("--save-seconds=15", f"--interval={STEPS}"),
        environ=SHORT_SHUTDOWN,
        seconds=400.0,
    ),
    Scenario(
        name="off",
        what="A GPU has memory errors, and AutoClusters' action on that is OFF.",
        outcome="AutoClusters detects and tells, and does nothing; the job runs on to its end. Then the node's own "
        "health check drains it.",
        plan=(Do(Action("XID_48", "OFF")), Do(GpuFault(48, rank="works"), at_step=AT_STEP)),
        expected=Expected(
            (TOLD, ("fault", "completed")),
            absent=("isolated", "answered", "requeued", "replaced", "failed"),
            attempts=0,
        ),
    ),
    Scenario(
        name="opted-out",
        what="A GPU has memory errors on a node whose worker has the label that forbids a replacement.",
        outcome="The job is requeued, the node stays drained, nothing is replaced, and that is said.",
        plan=(Do(OptOut()), Do(GpuFault(48, rank="works"), at_step=AT_STEP)),
        expected=Expected(
            ((*TOLD, "isolated", "skipped"), ANSWER, ("fault", "requeued")), absent=("replaced", "returned"), attempts=0
        ),
        trains=False,
    ),
    Scenario(
        name="full-queue",
        what="A GPU has memory errors while small jobs wait for every node.",
        outcome="The interrupted job starts before any of them.",
        plan=(Do(Fillers(), at_step=AT_STEP - 20), Do(GpuFault(48, rank="works"), at_step=AT_STEP)),
        expected=Expected(FULL, absent=("overtaken",), most_lost=0),
    ),
    Scenario(
        name="late-detection",
        what="A GPU falls off the bus; the rank crashes, and AutoClusters sees it only half a minute later.",
        outcome="The job is in the queue by itself long before. Once the fault is seen, it is noted with that job, "
        "which goes on with the replaced machine.",
        plan=(Do(Detection(30.0)), Do(GpuFault(79), at_step=AT_STEP)),
        expected=Expected((*FULL, ("fault", "lost", "requeued", "told")), most_lost=INTERVAL),
        seconds=400.0,
    ),
    Scenario(
        name="two-nodes",
        what="GPUs of both nodes of the job have memory errors in the same moment.",
        outcome="Both machines are replaced, the job starts again once, and no step is lost.",
        plan=(
            Do(GpuFault(48, rank="works"), at_step=AT_STEP),
            Do(GpuFault(48, "batch", rank="works"), at_step=AT_STEP),
        ),
        expected=Expected(FULL, most_lost=0),
        seconds=400.0,
    ),
    Scenario(
        name="same-fault-twice",
        what="The same GPU reports the same memory error again while its node is about to be repaired.",
        outcome="It is one fault: one machine is replaced, and the job starts again once.",
        plan=(
            Do(GpuFault(48, rank="works"), at_step=AT_STEP),
            Do(GpuFault(48, rank="works"), after="fault", seconds=0.5),
        ),
        expected=Expected(FULL, absent=("replaced-twice",), most_lost=0),
    ),
    Scenario(
        name="bystander",
        what="A GPU has memory errors; on the job's healthy node another job runs too.",
        outcome="The drilled job starts again, and the other one never notices.",
        plan=(Do(Beside(), at_step=AT_STEP - 20), Do(GpuFault(48, rank="works"), at_step=AT_STEP)),
        expected=Expected((*FULL, ("started", "beside")), absent=("disturbed",), most_lost=0),
    ),
    Scenario(
        name="cancelled",
        what="A GPU has memory errors, and the user cancels the job while its node is repaired.",
        outcome="The node is replaced, and the job stays cancelled; no reservation is left of it.",
        plan=(Do(GpuFault(48, rank="works"), at_step=AT_STEP), Do(Cancel(), after="requeued")),
        expected=Expected(
            (REPAIR, ANSWER, ("fault", "requeued", "cancelled")), absent=("started", "completed"), attempts=0
        ),
        trains=False,
    ),
    Scenario(
        name="daemons-killed",
        what="A GPU has memory errors, and slurmctld and slurmrestd are killed in the middle of the repair.",
        outcome="Both come back with what they knew, and all goes on as by default.",
        plan=(Do(GpuFault(48, rank="works"), at_step=AT_STEP), Do(KillDaemons(), after="isolated")),
        expected=Expected(FULL, most_lost=0),
        seconds=400.0,
    ),
    Scenario(
        name="maintenance",
        what="A person cordons a node of the job; no machine is broken.",
        outcome="The job runs on to its end, and nobody requeues it or replaces the node.",
        plan=(Do(Maintenance(), at_step=AT_STEP),),
        expected=Expected(
            (("training", "fault", "completed"),),
            absent=("told", "isolated", "answered", "requeued", "replaced"),
            attempts=0,
        ),
    ),
    Scenario(
        name="bad-replacement",
        what="A GPU has memory errors, and the machine that comes in its place has a GPU off the bus (XID 79).",
        outcome="Before or while the job starts there, that machine is found and replaced too; no step is lost.",
        plan=(Do(GpuFault(48, rank="works"), at_step=AT_STEP), Do(BadReplacement(), after="ready")),
        expected=Expected((*FULL, ("ready", "replaced-twice", "completed")), most_lost=0, attempts=2),
        seconds=400.0,
    ),
    Scenario(
        name="full-storage",
        what="A rank's part of a checkpoint is refused by the storage (it is full), and a later one is taken again.",
        outcome="The failed save is told and taken for no checkpoint; the job trains on, and the next save is whole.",
        plan=(Do(Storage(), at_step=AT_STEP), Do(Storage(full=False), after="unsaved")),
        expected=Expected(
            (("training", "fault", "unsaved", "saved", "completed"),),
            absent=("told", "isolated", "drained", "requeued", "replaced"),
            attempts=0,
        ),
    ),
    Scenario(
        name="time-limit",
        what="The job's time limit is near: an operator has shortened it.",
        outcome="Every rank saves, the job goes back into the queue by itself, and no step is lost.",
        plan=(Do(TimeLimit(2), at_step=20), Do(TimeLimit(15, near=False), after="requeued")),
        expected=Expected(
            (("fault", "limited", "requeued", *AGAIN[2:]),),
            absent=("told", "isolated", "drained", "replaced"),
            most_lost=0,
        ),
        options=("--step-seconds=0.5",),
        environ=SHORT_SHUTDOWN,
        seconds=400.0,
    ),
    Scenario(
        name="multi-tenant",
        what="The pool of the workers gets VMs that share their hosts with other customers' (`l40s-48gb.1x`).",
        outcome="That is refused before anything is created, with the place and the way out.",
        plan=(),
        expected=Expected((("refused",),)),
        trains=False,
        only="any",
        pool_type="l40s-48gb.1x",
    ),
)
"""Every scenario; the first is the default."""

BY_NAME: Mapping[str, Scenario] = {scenario.name: scenario for scenario in SCENARIOS}
