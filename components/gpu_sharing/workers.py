"""Slurm's workers in a shared pool: from the one NodeSet of a pool to a floor and what it borrows.

The floor keeps the pool's name, so that a pool which becomes shared keeps its nodes, its partition and its history.
What training borrows is a second NodeSet, `<pool>-borrow`, with a partition of that name. It has a fixed number of
workers that wait as Pending wherever no whole node is free: nothing scales it, nothing waits for it, and a Pending one
is no fault.

With Kueue there is one NodeSet of as many workers as training may have, and Kueue's quotas hold back those that have no
node.
"""

from dataclasses import replace

from components.gpu_sharing import objects
from components.gpu_sharing.kueue import QUEUE_LABEL, training_queue
from components.gpu_sharing.plan import SharedPool, SharingPlan
from components.gpu_sharing.settings import BORROW_SUFFIX
from components.slurm import conf, scripts
from components.slurm.conf_plan import ConfPlan, SlurmPool
from components.slurm.objects import Worker, merged
from components.slurm.plan import WorkerPlan
from crusoe.rules.slurm_timing import POD_MARGIN

BORROW_WEIGHT = 1000
"""What is added to the weight of borrowed nodes: Slurm takes them last."""
MOST_WEIGHT = 65533


def split(sharing: SharingPlan, worker: WorkerPlan, pool: SlurmPool, plan: ConfPlan) -> tuple[WorkerPlan, ...]:
    """The NodeSets of any pool: that of one which is not shared stays as it is."""
    shared = next((each for each in sharing.pools if each.key == pool.key), None)
    if shared is None:
        return (worker,)
    drain = shared.drain_budget + plan.timing.kill_wait
    return tuple(
        WorkerPlan(each, min_ready=0, drain_seconds=drain, lent=True)
        if each.key != pool.key
        else WorkerPlan(
            each,
            min_ready=_least(shared, worker),
            drain_seconds=drain,
            # Kueue holds back what is beyond it, for as long as somebody else has the nodes.
            floor=shared.floor if shared.engine == "kueue" else None,
        )
        for each in node_sets(worker.worker, shared, pool, plan)
    )


def _least(shared: SharedPool, worker: WorkerPlan) -> int:
    """Workers of the floor without which `up` fails: those that are always wanted, on nodes that there have to be."""
    wanted = min(shared.floor, shared.demand.warm_nodes) if shared.demand else shared.floor
    return min(wanted, worker.min_ready)


def node_sets(worker: Worker, shared: SharedPool, pool: SlurmPool, plan: ConfPlan) -> tuple[Worker, ...]:
    """The NodeSets of a shared pool, the floor first.

    `worker` is what the pool would have for itself, `pool` the same as slurm.conf sees it, in `plan`.
    """
    kill = plan.timing.kill_wait
    timed = replace(
        worker,
        grace_seconds=plan.timing.pod_grace or shared.drain_budget + kill + POD_MARGIN,
        pre_stop=scripts.pre_stop(drain_budget=shared.drain_budget, kill_wait=kill),
    )
    if shared.engine == "kueue":
        return (_queued(timed, shared),)
    floor = _floor(timed, shared)
    if shared.engine == "static" or not shared.borrowed:
        return (floor,)
    return floor, _borrow(timed, shared, pool, plan)


def _floor(worker: Worker, shared: SharedPool) -> Worker:
    spec = {"priorityClassName": objects.TRAIN_FLOOR, "affinity": objects.off_homes()}
    return replace(
        worker,
        # By demand it is KEDA that owns the number.
        replicas=None if shared.demand else shared.floor,
        template=merged(worker.template, spec),
        labels={**worker.labels, objects.POOL: shared.key, objects.PART: "floor"},
    )


def _borrow(worker: Worker, shared: SharedPool, pool: SlurmPool, plan: ConfPlan) -> Worker:
    lent = replace(
        pool,
        weight=min(MOST_WEIGHT, (pool.weight or 1) + BORROW_WEIGHT),
        partition=pool.partition.model_copy(
            update={"default": False, "max_time": shared.lent_max_time, "default_time": None}
        ),
    )
    return replace(
        worker,
        key=f"{worker.key}{BORROW_SUFFIX}",
        replicas=shared.borrowed,
        conf=conf.node_conf(lent),
        partition=conf.partition_config(plan, lent),
        # An update would wait for workers that wait for nodes.
        update="OnDelete",
        template=merged(worker.template, {"priorityClassName": objects.borrow_class(shared)}),
        labels={**worker.labels, objects.POOL: shared.key, objects.PART: "borrow"},
    )


def _queued(worker: Worker, shared: SharedPool) -> Worker:
    return replace(
        worker,
        replicas=None if shared.demand else shared.ceiling,
        update="OnDelete",
        template=merged(worker.template, {"priorityClassName": objects.SHARED}),
        labels={
            **worker.labels,
            objects.POOL: shared.key,
            objects.PART: "floor",
            QUEUE_LABEL: training_queue(shared),
        },
    )
