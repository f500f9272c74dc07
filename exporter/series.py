"""From what the sources say to values of metrics: pure functions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from actor import launches, notes, ownership
from actor.state import Job, SlurmNode
from exporter.figures import Moment, figures
from exporter.metrics import PREFIX
from exporter.read import slurm_gpus
from exporter.recovery import Recovery, recoveries
from exporter.repairs import Place, Repair, ended, repairs
from exporter.settings import Settings, Share
from exporter.sources import NAMES, Asked, Kubernetes, Machine, Slurm, View
from training import progress
from training.codes import GAVE_UP

DAY = 24 * 3600.0
_LACK_OF_NODES = ("Resources", "ReqNodeNotAvail", "Nodes_required_for_job", "NodeDown", "Reservation")
"""How Slurm's reasons begin of a job whose turn it is and that finds no nodes (26.05)."""


@dataclass(frozen=True)
class Sample:
    """A value of the metric `gpuplatform_<name>`; labels in the metric's order."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Distribution:
    """All observations of one series of a histogram."""

    name: str
    labels: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Memory:
    """What is seen of recoveries and places, grown by each look; another exporter finds it again on record.

    Attributes:
        recoveries: by job and restart, the newest last.
        places: where each VM is or was, by its id.
    """

    recoveries: Mapping[tuple[str, int], Recovery] = field(default_factory=dict[tuple[str, int], Recovery])
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])


def remember(memory: Memory, seen: View, settings: Settings) -> Memory:
    """The memory after a look."""
    places = dict(memory.places)
    for job in seen.slurm.jobs if seen.slurm else ():
        if fault := notes.read(job.comment).fault:
            places.setdefault(fault.host, Place("none", settings.pool_key(fault.pool), "none"))
    for each in seen.kubernetes.machines if seen.kubernetes else ():
        if each.node.instance:
            pool = settings.pool_key(each.node.pool)
            places[each.node.instance] = Place(each.node.name, pool, each.leaf)
    found = dict(memory.recoveries)
    operations = seen.autoclusters.operations if seen.autoclusters else ()
    for each in recoveries(seen.slurm.jobs if seen.slurm else (), operations, settings):
        key = (each.job_id, each.restart)
        before = found.get(key)
        # A source that is away now has said its part before.
        moments: dict[Moment, float] = {**before.moments, **each.moments} if before else each.moments
        lost = each.steps_lost if each.steps_lost is not None else before.steps_lost if before else None
        found[key] = Recovery(each.job_id, each.restart, each.pool, moments, lost)
    return Memory(found, places)


def samples(seen: View, memory: Memory, settings: Settings, now: float) -> Iterator[Sample]:
    """Every gauge and counter; `now` in seconds since 1970."""
    yield from _own(seen, settings)
    yield from _repairs(seen, memory, settings, now)
    yield from _pools(seen, settings)
    if seen.crusoe is not None:
        for quota in seen.crusoe.quotas:
            yield Sample("quota_used", (quota.name,), quota.used)
            yield Sample("quota_limit", (quota.name,), quota.limit)
    if seen.kubernetes is not None:
        yield from _nodes(seen.kubernetes, seen.slurm, settings)
    if seen.slurm is not None:
        yield from _slurm(seen.slurm, seen.kubernetes, now)
    yield from _shares(seen, settings)
    yield from _latest(memory)


def distributions(memory: Memory) -> Iterator[Distribution]:
    """Every histogram."""
    seconds: dict[tuple[str, ...], list[float]] = {}
    lost: dict[tuple[str, ...], list[float]] = {}
    for each in memory.recoveries.values():
        for stage, value in figures(each.moments).items():
            seconds.setdefault((each.pool, stage), []).append(value)
        if each.steps_lost is not None:
            lost.setdefault((each.pool,), []).append(float(each.steps_lost))
    yield from (Distribution("recovery_seconds", labels, tuple(values)) for labels, values in seconds.items())
    yield from (Distribution("recovery_steps_lost", labels, tuple(values)) for labels, values in lost.items())


def _own(seen: View, settings: Settings) -> Iterator[Sample]:
    yield Sample("exporter_info", (settings.version or "none",), 1)
    for name in NAMES:
        yield Sample("source_configured", (name,), float(name in seen.configured))
        if name in seen.succeeded:
            yield Sample("source_last_success_timestamp_seconds", (name,), seen.succeeded[name])
    expires = {
        "crusoe-api-key": settings.key_expires if "crusoe" in seen.configured else 0.0,
        "slurm-token": seen.slurm.token_expires if seen.slurm else 0.0,
    }
    for credential, at in expires.items():
        if at:
            yield Sample("credential_expiry_timestamp_seconds", (credential,), at)
    for credential, source in (("crusoe-api-key", "crusoe"), ("slurm-token", "slurm")):
        if source in seen.configured:
            yield Sample("credential_accepted", (credential,), float(credential not in seen.refused))


def _repairs(seen: View, memory: Memory, settings: Settings, now: float) -> Iterator[Sample]:
    machines = seen.kubernetes.machines if seen.kubernetes else ()
    for each in repairs(seen.autoclusters, machines, memory.places, now):
        labels = (each.operation, each.node, each.pool, each.leaf, each.issue, each.action)
        yield Sample("repair_state", (*labels, each.state), 1)
        if each.started:
            yield Sample("repair_start_timestamp_seconds", labels, each.started)
        if each.ended:
            yield Sample("repair_end_timestamp_seconds", labels, each.ended)
    if seen.autoclusters is not None:
        counted: dict[tuple[str, ...], int] = {}
        for each in ended(seen.autoclusters, memory.places):
            key = (each.pool, each.issue, _outcome(each))
            counted[key] = counted.get(key, 0) + 1
        # A counter that begins at zero shows its first repair as one.
        for pool in settings.pools:
            if not any(key[0] == pool for key in counted):
                yield Sample("repairs_total", (pool, "none", "done"), 0)
        yield from (Sample("repairs_total", key, value) for key, value in counted.items())


def _outcome(each: Repair) -> str:
    return "done" if each.state == "done" else "failed"


def _pools(seen: View, settings: Settings) -> Iterator[Sample]:
    for key, pool in settings.pools.items():
        yield Sample("pool_info", (key, pool.vm_type, pool.vendor), 1)
        if seen.crusoe is not None:
            found = next((each for each in seen.crusoe.pools if each.name == pool.name), None)
            if found is not None:
                yield Sample("pool_nodes_wanted", (key,), found.wanted)
                yield Sample("pool_nodes_running", (key,), found.running)
            if pool.vm_type in seen.crusoe.free:
                yield Sample("pool_spare_hosts", (key,), seen.crusoe.free[pool.vm_type])
        if seen.kubernetes is not None:
            ready = [each for each in seen.kubernetes.machines if each.node.pool == pool.name]
            fit = sum(each.ready and not each.node.cordoned for each in ready)
            yield Sample("pool_nodes_ready", (key,), fit)


def _nodes(seen: Kubernetes, slurm: Slurm | None, settings: Settings) -> Iterator[Sample]:
    gres = {each.name: each for each in slurm.nodes} if slurm else dict[str, SlurmNode]()
    for each in seen.machines:
        key = settings.pool_key(each.node.pool)
        pool = settings.pools.get(key)
        yield Sample("node_info", (each.node.name, key, each.leaf, pool.vendor if pool else "none"), 1)
        yield Sample("node_cordoned", (each.node.name, key), float(each.node.cordoned))
        if pool is None or not pool.gpus:
            continue
        yield Sample("node_gpus", (each.node.name, key, "expected"), pool.gpus)
        yield Sample("node_gpus", (each.node.name, key, "kubernetes"), each.gpus)
        if each.slurm_name in gres:
            yield Sample("node_gpus", (each.node.name, key, "slurm"), slurm_gpus(gres[each.slurm_name]))
    for pool, nodes in seen.lent.items():
        yield Sample("borrowed_nodes", (pool,), nodes)


def _slurm(seen: Slurm, kubernetes: Kubernetes | None, now: float) -> Iterator[Sample]:
    places = {each.slurm_name: each.node.name for each in kubernetes.machines} if kubernetes else dict[str, str]()
    for node in seen.nodes:
        if owner := _drained(node):
            yield Sample("slurm_node_drained", (places.get(node.name, "none"), node.name, owner), 1)
    counted: dict[str, int] = dict.fromkeys(("pending", "running", "held", "completing"), 0)
    for job in seen.jobs:
        yield from _job(job, now)
        if state := _counted(job):
            counted[state] += 1
    yield from (Sample("slurm_jobs", (state,), value) for state, value in counted.items())


def _drained(node: SlurmNode) -> str:
    """Whose doing it is that a node takes no jobs; empty where it takes them."""
    if node.draining or node.states & {"DOWN", "FAIL", "INVALID_REG", "NOT_RESPONDING"}:
        return {"slurm": "slurmd"}.get(found := ownership.owner(node.reason), found) if node.reason else "slurmd"
    return ""


def _counted(job: Job) -> str:
    if _held(job):
        return "held"
    if "COMPLETING" in job.states:
        return "completing"
    return "pending" if job.pending else "running" if job.running else ""


def _held(job: Job) -> str:
    """Why a job waits for somebody to release it; empty for one that doesn't."""
    if launches.launch_held(job):
        return "launch_failed"
    if job.states & {"REQUEUE_HOLD", "SPECIAL_EXIT"}:
        return "requeue_hold"
    if not job.pending or not job.held:
        return ""
    return "user" if job.reason == "JobHeldUser" else "admin"


def _job(job: Job, now: float) -> Iterator[Sample]:
    name = job.step_id
    if reason := _held(job):
        yield Sample("job_held", (name, reason), 1)
    elif job.pending and job.reason.startswith(_LACK_OF_NODES):
        yield Sample("job_pending_for_nodes", (name, job.partition or "none"), job.node_count)
    if job.over and job.exit == GAVE_UP and now - job.ended <= DAY:
        yield Sample("job_gave_up_timestamp_seconds", (name,), job.ended)
    told = progress.read(job.said)
    if job.running:
        yield Sample("job_running_nodes", (name, job.partition or "none"), len(job.nodes))
    yield from _requeues(job, told)
    if told is None:
        return
    if job.running and told.attempt == job.restarts:
        yield Sample("job_step", (name,), told.step)
        if told.saved_at:
            yield Sample("job_checkpoint_timestamp_seconds", (name,), told.saved_at)
        if told.save_every:
            yield Sample("job_checkpoint_interval_seconds", (name,), told.save_every)
    if told.allocated:
        yield Sample("effective_training_time_ratio", (name,), min(1.0, told.useful / told.allocated))
        yield Sample("job_useful_node_seconds", (name,), told.useful * job.node_count)
        yield Sample("job_allocated_node_seconds", (name,), told.allocated * job.node_count)


def _requeues(job: Job, told: progress.Progress | None) -> Iterator[Sample]:
    """Restarts by their reason: the actor notes faults, and a job tells of its own; what is left is anybody's."""
    faults = min(notes.read(job.comment).faults, job.restarts)
    own = min(told.own if told else 0, job.restarts - faults)
    for reason, value in (("node_failure", faults), ("own_failure", own), ("other", job.restarts - faults - own)):
        if job.restarts:
            yield Sample("job_requeues_total", (job.step_id, reason), value)


def _shares(seen: View, settings: Settings) -> Iterator[Sample]:
    for share in settings.shares:
        labels = (share.share, share.pool, share.side)
        yield Sample("share_floor_gpus", labels, share.floor)
        found = _asked(share, seen, settings)
        if found is not None:
            yield Sample("share_used_gpus", labels, found.held)
            yield Sample("share_wanted_gpus", labels, found.held + found.waiting)
            yield Sample("share_borrowed_gpus", labels, max(0, found.held - share.floor))


def _asked(share: Share, seen: View, settings: Settings) -> Asked | None:
    """GPUs that a share has and waits for; None where nobody tells."""
    if share.side == "inference":
        return seen.kubernetes.asked.get(share.namespace, Asked()) if seen.kubernetes else None
    if seen.slurm is None or seen.kubernetes is None:
        return None
    gpus = settings.pools[share.pool].gpus
    within = {each.slurm_name for each in seen.kubernetes.machines if _key(each, settings) == share.pool}
    held = sum(len(within & {*job.nodes}) for job in seen.slurm.jobs if job.running)
    parts = {part for node in seen.slurm.nodes if node.name in within for part in node.partitions}
    waiting = sum(
        job.node_count
        for job in seen.slurm.jobs
        if job.pending and not _held(job) and parts & {*job.partition.split(",")}
    )
    return Asked(held * gpus, waiting * gpus)


def _key(each: Machine, settings: Settings) -> str:
    return settings.pool_key(each.node.pool)


def _latest(memory: Memory) -> Iterator[Sample]:
    """Of each pool and stage the figure of the recovery that ended last."""
    latest: dict[tuple[str, ...], float] = {}
    for each in sorted(memory.recoveries.values(), key=_drained_at):
        for stage, value in figures(each.moments).items():
            latest[(each.pool, stage)] = value
    yield from (Sample("recovery_last_seconds", labels, value) for labels, value in latest.items())


def _drained_at(each: Recovery) -> float:
    return each.moments.get("drained", 0.0)


def whole(name: str) -> str:
    """A metric's whole name."""
    return f"{PREFIX}{name}"


def by_name(found: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Samples by their metric's whole name."""
    grouped: dict[str, list[Sample]] = {}
    for each in found:
        grouped.setdefault(whole(each.name), []).append(each)
    return grouped
