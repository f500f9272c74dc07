"""What runs on a stack's pools: hosts that can be repaired, hosts that work is planned for, and Slurm's own options."""

from __future__ import annotations

from dataclasses import dataclass

from crusoe import catalog
from crusoe.rules import gpu_quota, pool_size, slurm_safety
from crusoe.rules.values import table, text
from policies import kinds
from policies.policy import Resource, Stack

CONTROLLERS = kinds.kubernetes("Controller", group=kinds.SLINKY)
NODE_SETS = kinds.kubernetes("NodeSet", group=kinds.SLINKY)
DEPLOYMENTS = kinds.kubernetes("Deployment", "StatefulSet")

POOL_FIELDS = ("type", "count", "autoscaling")


def pool_of(resource: Resource) -> dict[str, object]:
    """Return what rules ask of a pool. Raises NotKnownError."""
    return {key: resource.known(key) for key in POOL_FIELDS}


@dataclass(frozen=True)
class Hosts:
    """Hosts that AutoClusters can replace, and the GPUs that each has at least."""

    count: int
    gpus: int


def repairable_hosts(stack: Stack) -> Hosts:
    """Return the hosts of all pools that can be repaired, as many as there are for sure. Raises NotKnownError."""
    count, gpus = 0, 0
    for resource in stack.of(kinds.POOLS):
        pool = pool_of(resource)
        kind = catalog.vm_type(pool["type"])
        if kind is not None and kind.autoclusters:
            count += pool_size.least_nodes(pool) or 0
            gpus = min(gpus, kind.gpus) if gpus else kind.gpus
    return Hosts(count, gpus)


def planned_hosts(stack: Stack, gpus_per_host: int) -> int:
    """Return how many hosts the stack's NodeSets and GPU Deployments take. Raises NotKnownError.

    A worker of Slurm has a host to itself. Workers on borrowed nodes count for nothing: their priority class is below
    zero, and they give way. Neither do workers that say what they need, and need no GPU.
    """
    giving_way = {
        text(table(each.inputs.get("metadata")).get("name")) or each.name
        for each in stack.of(kinds.kubernetes("PriorityClass"))
        if (gpu_quota.amount(each.inputs.get("value")) or 0) < 0
    }
    hosts, gpus = 0, 0
    for resource in stack.of(NODE_SETS):
        spec = table(resource.known("spec"))
        lent = table(table(spec.get("template")).get("spec")).get("priorityClassName") in giving_way
        without_gpus = bool(table(spec.get("slurmd")).get("resources")) and not kinds.asks_for_gpus(resource)
        if not lent and not without_gpus:
            hosts += gpu_quota.amount(spec.get("replicas")) or 0
    for resource in stack.of(DEPLOYMENTS):
        replicas = gpu_quota.amount(resource.known("spec", "replicas"))
        each = sum(sum(kinds.gpus_of_container(one).values()) for _, one in kinds.containers(resource))
        gpus += each * (1 if replicas is None else replicas)
    return hosts + -(-gpus // max(1, gpus_per_host))


def slurm_conf(stack: Stack) -> list[tuple[Resource, str]]:
    """Return each Controller of Slinky with its part of slurm.conf. Raises NotKnownError."""
    return [(each, text(each.known("spec", "extraConf")) or "") for each in stack.of(CONTROLLERS)]


def kill_wait(stack: Stack) -> int:
    """Return the seconds that the stack's jobs have after SIGTERM. Raises NotKnownError."""
    return max((slurm_safety.pod_time(conf) for _, conf in slurm_conf(stack)), default=slurm_safety.KILL_WAIT)
