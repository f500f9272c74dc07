"""Settings of slurm.conf: time windows, partitions, topology, and options by name.

Owns what of Slurm's configuration is a choice of people. Leaves alone what Slinky's operator writes (docs/slurm-conf.md
lists it) and everything about the pods that the daemons run in.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from components.settings import Plain, Settings
from components.slurm.conf_elsewhere import elsewhere
from crusoe import catalog
from crusoe.rules import slurm_conf, slurm_partitions, slurm_timing
from crusoe.rules.finding import Finding
from crusoe.rules.slurm_vocabulary import OPTIONS
from crusoe.rules.values import table


class TimingSettings(Settings):
    """How long things may take around the end of a job, in seconds. Each window has to fit into the one around it."""

    kill_wait: int = Field(
        default=90,
        ge=1,
        le=65533,
        description="Between SIGTERM and SIGKILL, on a drain, a node failure, a preemption and at the time limit.",
        examples=[120],
    )
    torchrun_shutdown: int = Field(
        default=80,
        ge=1,
        description="What torchrun gives its ranks after SIGTERM; less than `killWait`.",
        examples=[110],
    )
    warned_save: int = Field(
        default=70,
        ge=1,
        description="What a rank may take from the warning until its checkpoint is whole; `torchrunShutdown` at most.",
        examples=[100],
    )
    step_timeout: int = Field(
        default=20,
        ge=1,
        description="What a rank may take to end its training step after the warning, part of `warnedSave`. A rank "
        "that can't, because it hangs with a lost GPU, exits.",
        examples=[15],
    )
    drain_budget: int = Field(
        default=30,
        ge=1,
        description="What a worker's preStop may take to drain its node and have the jobs requeued.",
        examples=[45],
    )
    pod_grace: int | None = Field(
        default=None,
        ge=1,
        description="A worker pod's termination grace period, by default `drainBudget` + `killWait` + 30.",
        examples=[180],
    )
    unkillable_step_timeout: int | None = Field(
        default=None,
        ge=1,
        le=65533,
        description="After SIGKILL, until a node whose processes do not end is drained; by default twice `killWait`.",
        examples=[240],
    )
    slurmd_timeout: int = Field(
        default=120,
        ge=0,
        le=65533,
        description="Until a node that says nothing is down, and its jobs are requeued.",
        examples=[90],
    )
    cred_expire: int = Field(
        default=30,
        ge=1,
        description="Life of a job's credential; also what a requeued job waits before it may start again.",
        examples=[30],
    )
    allow_short_cred_expire: bool = Field(
        default=False,
        description="Declares that `credExpire` may be less than a job's start may take. For development only.",
        examples=[True],
    )


class PartitionSettings(Settings):
    """A partition: pools that jobs can be sent to together, and the limits there."""

    pools: tuple[str, ...] = Field(
        default=(),
        description="Keys of the pools; left out for a pool's own partition.",
        examples=[["train", "burst"]],
    )
    default: bool = Field(
        default=False, description="Takes the jobs that name no partition; one at most.", examples=[True]
    )
    max_time: str = Field(
        default="7-0",
        description="Longest job, as Slurm writes it: minutes, `hours:minutes:seconds`, `days-hours`, or `UNLIMITED`. "
        "A worker that leaves waits for its jobs that long.",
        examples=["2-12"],
    )
    default_time: str | None = Field(
        default=None, description="Time limit of jobs that name none, by default `maxTime`.", examples=["1:00:00"]
    )
    min_nodes: int | None = Field(default=None, ge=0, description="Fewest nodes of a job.", examples=[2])
    max_nodes: int | None = Field(default=None, ge=1, description="Most nodes of a job.", examples=[16])
    priority_tier: int = Field(
        default=1,
        ge=0,
        le=65533,
        description="Jobs of a higher tier are looked at first, and may preempt those of a lower one.",
        examples=[10],
    )
    priority_job_factor: int = Field(
        default=1, ge=0, le=65533, description="The partition's part in a job's priority.", examples=[100]
    )
    preempt_mode: Literal["off", "requeue", "cancel"] = Field(
        default="off",
        description="What happens to its jobs when a higher tier needs their nodes, with `preemption: partition`.",
        examples=["requeue"],
    )
    grace_time: int = Field(
        default=0,
        ge=0,
        description="Seconds that a preempted job has from its warning, `timing.killWait` at most.",
        examples=[60],
    )
    exclusive: Literal["no", "node", "user"] = Field(
        default="no", description="What a job or a user has for itself: nothing, whole nodes, nodes.", examples=["node"]
    )
    allow_groups: tuple[str, ...] = Field(
        default=(), description="Unix groups that may use it; all by default.", examples=[["research"]]
    )
    allow_accounts: tuple[str, ...] = Field(
        default=(), description="Accounts that may use it; all by default.", examples=[["vision"]]
    )
    deny_accounts: tuple[str, ...] = Field(
        default=(), description="Accounts that may not use it.", examples=[["interns"]]
    )
    allow_qos: tuple[str, ...] = Field(
        default=(), description="QOS that may be used in it; all by default.", examples=[["normal", "urgent"]]
    )
    deny_qos: tuple[str, ...] = Field(
        default=(), description="QOS that may not be used in it.", examples=[["scavenge"]]
    )
    qos: str | None = Field(default=None, description="QOS whose limits hold for the partition.", examples=["train"])
    state: Literal["up", "down", "drain", "inactive"] = Field(
        default="up",
        description="`drain` takes no more jobs, `down` starts no more, `inactive` neither.",
        examples=["drain"],
    )
    hidden: bool = Field(default=False, description="Is not shown by default.", examples=[True])
    def_cpu_per_gpu: int | None = Field(
        default=None,
        ge=1,
        description="Cores for each GPU of a job that names no number; by default the node's share, where the "
        "catalogue knows the VM type's cores.",
        examples=[20],
    )
    def_mem_per_gpu: int | None = Field(
        default=None,
        ge=1,
        description="MiB of memory for each GPU of a job that names no amount; by default the node's share, where the "
        "catalogue knows the VM type's memory.",
        examples=[110000],
    )


class TopologySettings(Settings):
    """What Slurm knows of the network between nodes, so that a job's nodes are near each other."""

    kind: Literal["none", "tree", "block"] = Field(
        default="none",
        description="`tree` for switches of InfiniBand or RoCE, `block` for NVLink domains.",
        examples=["tree"],
    )
    leaves: tuple[str, ...] = Field(
        default=(),
        description="Leaf switches or NVLink domains that are known beforehand. Others are added as nodes come up.",
        examples=[["leaf-1", "leaf-2"]],
    )
    default_leaf: str = Field(
        default="unknown", description="Leaf of nodes whose place is not known.", examples=["unknown"]
    )
    block_size: int = Field(
        default=18, ge=1, description="Nodes of one NVLink domain; GB200 NVL72 has 18.", examples=[18]
    )


OptionValue = str | int | bool | tuple[str, ...]


class ConfSettings(Settings):
    """The rest of slurm.conf."""

    options: Mapping[str, OptionValue] = Field(
        default={},
        description="Options of slurm.conf by their name in Slurm 26.05; docs/slurm-conf.md lists them. A value "
        "replaces the platform's, a list is added to it.",
        examples=[{"MaxArraySize": 10001, "SchedulerParameters": ["bf_interval=15"]}],
    )
    private_data: tuple[str, ...] = Field(
        default=(),
        description="What users don't see of each other. The metrics stay readable to their own user.",
        examples=[["jobs", "usage", "users"]],
        json_schema_extra={"items": {"type": "string", "enum": list(OPTIONS["PrivateData"].words)}},
    )
    preemption: Literal["qos", "partition", "off"] | None = Field(
        default=None,
        description="What decides who gives way: the QOS of accounting (the default with accounting), the tiers of "
        "partitions, or nothing (the default without).",
        examples=["partition"],
    )
    require_time_limit: bool = Field(default=True, description="Refuses jobs without a time limit.", examples=[False])


def findings(slurm: Plain, path: str, pools: Plain, *, accounting: bool, pools_path: str) -> Iterator[Finding]:
    """Check `timing`, `partitions`, `pools`, `topology` and `conf` of Slurm's settings, and them against each other.

    `pools` are the node pools that Slurm has workers in, by key, as settings. Contradictions that only show in the
    whole slurm.conf are found by `components.slurm.conf.findings`.
    """
    conf, timing, workers = (table(slurm.get(key)) for key in ("conf", "timing", "pools"))
    options = table(conf.get("options"))
    yield from slurm_conf.options(f"{path}.conf.options", options, elsewhere(path), accounting)
    yield from slurm_conf.words(f"{path}.conf.privateData", conf.get("privateData"), "PrivateData")
    yield from slurm_timing.timing(f"{path}.timing", timing, options)
    yield from slurm_partitions.partitions(
        f"{path}.partitions",
        slurm.get("partitions"),
        pools,
        own={key: table(workers.get(key)).get("partition") for key in pools},
        own_path=f"{path}.pools",
        kill_wait=timing.get("killWait"),
        preemption=conf.get("preemption") or ("qos" if accounting else "off"),
        accounting=accounting,
    )
    types = [table(pool).get("type") for pool in pools.values()]
    yield from slurm_partitions.topology(f"{path}.topology", slurm.get("topology"), types)
    for key, pool in pools.items():
        yield from slurm_conf.gres(f"{pools_path}.{key}.type", table(pool).get("type"))
    yield from _vendors(f"{path}.pools", workers, pools)


def _vendors(path: str, workers: Plain, pools: Plain) -> Iterator[Finding]:
    """Slurm finds GPUs of two vendors only by the names of their nodes, and a DaemonSet's names can't be foretold."""
    kinds = {key: catalog.vm_type(table(pool).get("type")) for key, pool in pools.items()}
    vendors = {kind.gpu_vendor for kind in kinds.values() if kind is not None and kind.gpu_vendor}
    for key in kinds if len(vendors) > 1 else ():
        if table(workers.get(key)).get("scalingMode") == "DaemonSet":
            yield Finding(
                f"{path}.{key}.scalingMode",
                "with GPUs of NVIDIA and AMD in one Slurm the names of all nodes have to be known",
                "Write scalingMode: StatefulSet",
            )
