"""Every option of slurm.conf that the platform sets, in the order in which it is written, each with its reason.

What the options may hold is Slurm's business and is in `crusoe.rules.slurm_vocabulary`; which of them have a setting of
their own, in `components.slurm.conf_elsewhere`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from components.slurm.conf_plan import OPERATORS_NODE_COUNT, ConfPlan, unkillable_step_timeout
from crusoe.rules.slurm_conf import minutes

LONGEST_WINDOW = 43_200
"""Most minutes that Slurm's backfill looks ahead (bf_window): 30 days."""
USUAL_WINDOW = 1_440
"""Minutes that it looks ahead unless told otherwise."""


@dataclass(frozen=True)
class Option:
    """One option that the platform sets.

    Attributes:
        value: as slurm.conf has it; None leaves the option out.
        reason: why it is set so, in a sentence.
        needs: when it is set at all, in words; empty for always.
        grows: a list whose items the platform relies on: what people give is added, and replaces an item of its name.
    """

    name: str
    value: Callable[[ConfPlan], str | None]
    reason: str
    needs: str = ""
    grows: bool = False


def _scheduler(plan: ConfPlan) -> str:
    window = f",bf_window={longest}" if (longest := _longest_job(plan)) > USUAL_WINDOW else ""
    return f"nohold_on_prolog_fail,bf_continue{window}"


def _longest_job(plan: ConfPlan) -> int:
    """Minutes of the longest job that any partition allows, as far as backfill can look ahead."""
    partitions = [*plan.wide_partitions.values(), *(pool.partition for pool in plan.pools)]
    return int(min(LONGEST_WINDOW, max((minutes(each.max_time) or 0 for each in partitions), default=0)))


def _tres(plan: ConfPlan) -> str:
    types = dict.fromkeys(pool.gres for pool in plan.pools if pool.gres)
    return ",".join(["gres/gpu", *(f"gres/gpu:{each}" for each in types)])


def _node_count(plan: ConfPlan) -> str | None:
    return str(plan.most_nodes) if plan.most_nodes > OPERATORS_NODE_COUNT else None


def _topology(plan: ConfPlan) -> str | None:
    return {"tree": "SwitchAsNodeRank", "block": "BlockAsNodeRank"}.get(plan.topology.kind)


def _preempt_type(plan: ConfPlan) -> str | None:
    return {"qos": "preempt/qos", "partition": "preempt/partition_prio"}.get(plan.preemption)


def _always(value: str) -> Callable[[ConfPlan], str]:
    return lambda plan: value  # noqa: ARG005 - the same for every plan


def _accounted(value: str) -> Callable[[ConfPlan], str | None]:
    return lambda plan: value if plan.accounting else None


def _checked(value: str) -> Callable[[ConfPlan], str | None]:
    return lambda plan: value if plan.health_check else None


_ACCOUNTING = "accounting"
_HEALTH = "a health check program"

TABLE: tuple[Option, ...] = (
    # Jobs outlive the failure of a node.
    Option("JobRequeue", _always("1"), "A job whose node fails starts again by itself."),
    Option(
        "RequeueExit",
        _always("75"),
        "A crash is not a node failure, so a job script asks for another start with this exit code, which nothing else "
        "uses; it counts its own starts, since Slurm sets no bound.",
    ),
    Option("MaxBatchRequeue", _always("5"), "Bounds the starts of a job whose prolog or launch fails each time."),
    Option(
        "SchedulerParameters",
        _scheduler,
        "A failing prolog sends the job to another node instead of holding it until a person comes. Backfill looks as "
        "far ahead as the longest job, or large jobs would starve, and goes on where it was interrupted.",
        grows=True,
    ),
    Option("KillOnBadExit", _always("1"), "One dead task ends the step, so that a job never waits for a lost rank."),
    Option("JobFileAppend", _always("1"), "A job that starts again keeps the output of its first start."),
    Option(
        "KillWait",
        lambda plan: str(plan.timing.kill_wait),
        "The window for a last checkpoint: on a drain or failure this, not --signal, parts SIGTERM from SIGKILL.",
    ),
    Option(
        "UnkillableStepTimeout",
        lambda plan: str(unkillable_step_timeout(plan.timing)),
        "Above KillWait and 5 x MessageTimeout, or nodes would be drained for jobs that are about to end.",
    ),
    Option(
        "SlurmdTimeout",
        lambda plan: str(plan.timing.slurmd_timeout),
        "A node that dies unreported is noticed after this; Slurm's own 300 s would keep jobs hanging.",
    ),
    Option("MessageTimeout", _always("10"), "Slurm's own, written down because other times are measured against it."),
    Option(
        "BatchStartTimeout", _always("10"), "Slurm's own, written down because other times are measured against it."
    ),
    Option(
        "AuthInfo",
        lambda plan: f"cred_expire={plan.timing.cred_expire}",
        "A requeued job waits for this before it may start; Slurm's own 120 s would be the longest part of a recovery. "
        "The operator adds its own items.",
    ),
    Option(
        "ReturnToService",
        _always("1"),
        "A silent node returns by itself. Nodes are drained, never set down, so that 2 is not needed: with it a broken "
        "node that still answers would take jobs again a second after it was set down.",
    ),
    Option(
        "ResvOverRun",
        _always("UNLIMITED"),
        "A reservation that keeps the place of an interrupted job must not kill the job when it ends.",
    ),
    Option(
        "PrologEpilogTimeout", _always("300"), "A prolog or epilog that hangs drains its node instead of blocking it."
    ),
    Option(
        "MinJobAge",
        _always("300"),
        "Slurm's own, written down because a node set may leave only when no job record points at it.",
    ),
    # What a node has, and what a job gets of it.
    Option(
        "GresTypes",
        _always("gpu"),
        "Jobs ask for GPUs with --gres or --gpus; the operator no longer sets it.",
        grows=True,
    ),
    Option("SelectType", _always("select/cons_tres"), "The only one that hands out single GPUs."),
    Option(
        "SelectTypeParameters",
        _always("CR_Core_Memory"),
        "Jobs share a node by cores and memory, and memory is enforced.",
    ),
    Option("ProctrackType", _always("proctrack/cgroup"), "No process outlives its job."),
    Option(
        "TaskPlugin", _always("task/affinity,task/cgroup"), "Ranks keep to their cores, memory and GPUs.", grows=True
    ),
    Option(
        "PrologFlags",
        _always("Contain"),
        "A job's cgroup is there before its first process, which pam_slurm_adopt and enable_stepmgr need.",
        grows=True,
    ),
    Option(
        "SlurmctldParameters",
        _always("enable_stepmgr"),
        "Jobs manage their own steps, so that many srun do not load slurmctld. The operator adds its own items.",
        grows=True,
    ),
    Option(
        "LaunchParameters",
        _always("use_interactive_step,enable_nss_slurm"),
        "salloc opens its shell on the first node of the job. A job's user has a name on its nodes, even one who was "
        "added a moment ago.",
        grows=True,
    ),
    Option("MaxNodeCount", _node_count, "Room for all nodes of the pools; the operator's own is 1024.", "more nodes"),
    Option(
        "TopologyParam",
        _topology,
        "Neighbours in the network are neighbours by rank, whatever their names.",
        "a topology",
        grows=True,
    ),
    # What users may do and see.
    Option(
        "EnforcePartLimits",
        _always("ALL"),
        "A job that no partition could ever run is refused at once, instead of waiting for ever.",
    ),
    Option(
        "PropagateResourceLimitsExcept",
        _always("MEMLOCK,NPROC"),
        "The login node's small limit of locked memory would break InfiniBand in jobs, that of processes data loaders.",
        grows=True,
    ),
    Option(
        "JobSubmitPlugins",
        _always("lua"),
        "job_submit.lua refuses GPU jobs without GPUs and jobs without limits.",
        grows=True,
    ),
    Option(
        "PrivateData",
        lambda plan: ",".join(plan.conf.private_data) or None,
        "What users do not see of each other is a choice.",
        "the setting",
    ),
    Option(
        "MetricsAuthUsers",
        lambda plan: plan.metrics_user,
        "Without it everybody reads the metrics, names and jobs of all users included.",
        "metrics",
        grows=True,
    ),
    # Who gives way.
    Option("PreemptType", _preempt_type, "Urgent work takes nodes from work that allows it.", "preemption"),
    Option(
        "PreemptMode",
        lambda plan: None if plan.preemption == "off" else "REQUEUE",
        "Preempted jobs start again from their checkpoint. Nothing is preempted that its QOS or partition does not "
        "give up.",
        "preemption",
    ),
    # Who used what.
    Option(
        "AccountingStorageEnforce",
        _accounted("associations,limits,qos,safe"),
        "Limits are enforced, and no job starts that its account's hours could not let end.",
        _ACCOUNTING,
        grows=True,
    ),
    Option(
        "AccountingStorageTRES",
        lambda plan: _tres(plan) if plan.accounting else None,
        "GPUs are counted and limited, together and by type.",
        _ACCOUNTING,
        grows=True,
    ),
    Option(
        "JobAcctGatherType", _accounted("jobacct_gather/cgroup"), "Counts the cores and memory of jobs.", _ACCOUNTING
    ),
    Option("PriorityType", _accounted("priority/multifactor"), "Fair share needs it.", _ACCOUNTING),
    Option("PriorityWeightQOS", _accounted("100000"), "The QOS comes first: urgent is urgent.", _ACCOUNTING),
    Option("PriorityWeightFairshare", _accounted("10000"), "Then who had less than their share.", _ACCOUNTING),
    Option("PriorityWeightAge", _accounted("1000"), "Then who waits longest, so that nobody starves.", _ACCOUNTING),
    Option("PriorityWeightPartition", _accounted("1000"), "Then the partition's factor.", _ACCOUNTING),
    Option("PriorityDecayHalfLife", _accounted("14-0"), "What was used two weeks ago counts half.", _ACCOUNTING),
    Option("PriorityMaxAge", _accounted("7-0"), "A job's age counts in full after a week.", _ACCOUNTING),
    # Which nodes are fit.
    Option("HealthCheckProgram", lambda plan: plan.health_check, "Drains a node that is unfit.", _HEALTH),
    Option("HealthCheckInterval", _checked("300"), "Every five minutes.", _HEALTH),
    Option("HealthCheckNodeState", _checked("ANY,CYCLE"), "On all nodes, not all at the same moment.", _HEALTH),
)
"""All of them. A plan that calls for none of an option leaves it out."""

ORDER = {option.name: place for place, option in enumerate(TABLE)}
"""Place of each option in the table."""
