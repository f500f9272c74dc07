"""slurm.conf as pure functions: a plan in, text out.

Owns every line that the platform adds to slurm.conf, and the items that a worker registers with. Leaves alone the lines
of Slinky's operator, which come before these; where both have an option, the last line counts, and of
SlurmctldParameters and AuthInfo the operator merges both.

What breaks if violated: slurmctld refuses the whole file when one partition names nodes that it does not know, and the
operator writes the name of a node set only while its NodeSet is there. So a partition over several pools names node
sets of our own (`NodeSet=pool_<key> Feature=<key>`), declared beside it, which are simply empty while a pool has no
node: every file between two states of the platform loads. A pool's own partition comes and goes with its NodeSet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from components.slurm.conf_options import ORDER, TABLE
from components.slurm.conf_plan import OPERATORS_NODE_COUNT, ConfPlan, SlurmPool
from components.slurm.conf_settings import OptionValue, PartitionSettings
from crusoe.rules import slurm_conf as rules
from crusoe.rules.finding import Finding
from crusoe.rules.slurm_vocabulary import OPTIONS


def slurm_conf(plan: ConfPlan) -> str:
    """Text for the Controller's `extraConf`: one `Key=Value` a line, the partitions over several pools last."""
    lines = [f"{name}={value}" for name, value in options(plan).items()]
    used = dict.fromkeys(key for each in plan.wide_partitions.values() for key in each.pools)
    lines += [f"NodeSet={node_set(key)} Feature={key}" for key in used]
    for name, partition in plan.wide_partitions.items():
        nodes = ",".join(node_set(key) for key in partition.pools) or "ALL"
        lines.append(f"PartitionName={name} Nodes={nodes} {_partition(plan, partition, plan.pools_of(partition))}")
    return "\n".join(lines) + "\n"


def node_set(key: str) -> str:
    """Our node set over a pool; no node's name has an underscore, so it is never taken for one."""
    return f"pool_{key}"


def options(plan: ConfPlan) -> Mapping[str, str]:
    """All options as slurm.conf has them: the platform's in their order, then people's own by name."""
    values = {option.name: value for option in TABLE if (value := option.value(plan)) is not None}
    grown = {option.name for option in TABLE if option.grows}
    for name, given in plan.conf.options.items():
        mine = values.get(name)
        values[name] = _merged(mine, written(name, given)) if mine and name in grown else written(name, given)
    return dict(sorted(values.items(), key=lambda each: (ORDER.get(each[0], len(ORDER)), each[0])))


def written(name: str, value: OptionValue) -> str:
    """A value as slurm.conf has it."""
    if isinstance(value, bool):
        yes = (known := OPTIONS.get(name)) is not None and known.kind == "yes"
        return ("YES" if yes else "1") if value else ("NO" if yes else "0")
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _merged(mine: str, theirs: str) -> str:
    """Both lists, of two items of one name the second."""
    items = {item.partition("=")[0].lower(): item for item in f"{mine},{theirs}".split(",")}
    return ",".join(items.values())


def findings(plan: ConfPlan, path: str) -> Iterator[Finding]:
    """Check what only shows in the whole: options against each other. `path` is that of Slurm's settings."""
    values, place = options(plan), f"{path}.conf.options"
    yield from rules.contradictions(place, values)
    # The worker's preStop drains, and so does whatever answers a fault.
    returns = _number(values["ReturnToService"])
    yield from rules.return_to_service(f"{place}.ReturnToService", returns, "drain")
    limit = _number(values.get("MaxNodeCount", str(OPERATORS_NODE_COUNT)))
    yield from rules.node_count(f"{place}.MaxNodeCount", plan.most_nodes, limit)


def _number(value: str) -> int | None:
    """A whole number; what is none has a finding of its own."""
    return int(value) if value.isdecimal() else None


def partition_config(plan: ConfPlan, pool: SlurmPool) -> str:
    """Text for a NodeSet's `partition.config`: the pool's own partition, whose name and nodes the operator adds."""
    return _partition(plan, pool.partition, (pool,))


def _partition(plan: ConfPlan, settings: PartitionSettings, pools: Sequence[SlurmPool]) -> str:
    """Everything of a partition's line after its name and nodes."""
    by_partition = plan.preemption == "partition"
    items = {
        "Default": "YES" if settings.default else None,
        "State": settings.state.upper(),
        "MaxTime": settings.max_time,
        "DefaultTime": settings.default_time,
        "MinNodes": settings.min_nodes,
        "MaxNodes": settings.max_nodes,
        "PriorityTier": settings.priority_tier,
        "PriorityJobFactor": settings.priority_job_factor,
        "PreemptMode": settings.preempt_mode.upper() if by_partition else None,
        "GraceTime": settings.grace_time if by_partition and settings.grace_time else None,
        "Exclusive": settings.exclusive.upper(),
        "AllowGroups": ",".join(settings.allow_groups) or None,
        "AllowAccounts": ",".join(settings.allow_accounts) or None,
        "DenyAccounts": ",".join(settings.deny_accounts) or None,
        "AllowQos": ",".join(settings.allow_qos) or None,
        "DenyQos": ",".join(settings.deny_qos) or None,
        "QOS": settings.qos,
        "Hidden": "YES" if settings.hidden else None,
        "DefCpuPerGPU": settings.def_cpu_per_gpu or _share(pools, lambda pool: pool.cpus),
        "DefMemPerGPU": settings.def_mem_per_gpu or _share(pools, lambda pool: pool.memory_mib),
    }
    return " ".join(f"{name}={value}" for name, value in items.items() if value is not None)


def _share(pools: Sequence[SlurmPool], measure: Callable[[SlurmPool], int | None]) -> int | None:
    """What one GPU's part of a node is on every pool that has GPUs; None where it is not known of one of them."""
    measured = [(pool.gpus, measure(pool)) for pool in pools if pool.gpus]
    shares = [whole // gpus for gpus, whole in measured if whole is not None]
    return min(shares) or None if shares and len(shares) == len(measured) else None


def node_conf(pool: SlurmPool) -> str:
    """Text for a NodeSet's `extraConf`: what its nodes register with, as `Key=Value` items parted by single spaces.

    The operator panics on an item without `=`, an empty one included, and adds the feature named after the pool.

    Cores and memory are not among them. The image gives jobs what the pod's limits leave of the node: MemSpecLimit is
    the node's memory less the limit, and CoreSpecCount likewise. A RealMemory of the limit would take the same margin
    off a second time, and a job that asks for the whole node would wait for ever.
    """
    items = {
        "Gres": f"gpu:{pool.gres}:{pool.gpus}" if pool.gres and pool.gpus else None,
        "Features": ",".join(pool.features) or None,
        "Weight": pool.weight,
    }
    return " ".join(f"{name}={value}" for name, value in items.items() if value is not None)
