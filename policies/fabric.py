"""Nodes that train together have a fabric between them."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import node_pools, pool_size
from crusoe.rules.finding import Finding
from policies import examples, kinds, workloads
from policies.policy import Parameters, Resource, ResourcePolicy, example


def _partition(resource: Resource, _: Parameters) -> Iterator[Finding]:
    key = "transportPartitionId" if resource.type == kinds.SLURM_NODE_SET else "ibPartitionId"
    has = resource.has("ibPartitionId") or resource.has("transportPartitionId")
    pool = {name: resource.read(name) for name in workloads.POOL_FIELDS}
    if not has and (pool_size.most_nodes(pool) or 0) > 1:
        yield from node_pools.fabric("type", pool["type"], has_partition=False, partition_path=key)


def _pool(**properties: object) -> examples.Declared:
    return examples.pool(type="h100-80gb-sxm-ib.8x", **properties)


POLICIES = [
    ResourcePolicy(
        name="fabric-partition",
        refuses="A pool of several nodes with InfiniBand or RoCE has a partition.",
        why="Without one the nodes talk over Ethernet at a fraction of the speed, and one can't be added later.",
        fix="Give ibPartitionId the id of an IbPartition.",
        applies=kinds.POOLS,
        check=_partition,
        good=example("Four nodes in a partition.", _pool(count=4, ibPartitionId="partition")),
        bad=example("Four nodes without one.", _pool(count=4)),
    )
]
