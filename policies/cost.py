"""How many GPUs a stack may have. Limits are the configuration's; without one there is none."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import gpu_cost
from crusoe.rules.finding import Finding
from policies import examples, kinds, workloads
from policies.policy import Parameters, Resource, ResourcePolicy, Stack, StackPolicy, example

LIMITS = {
    "maxGpus": {
        "type": "integer",
        "minimum": 0,
        "default": 1024,
        "description": "GPUs that a stack may have in all, autoscaling's upper bounds counted.",
    },
    "maxGpusByType": {
        "type": "object",
        "additionalProperties": {"type": "integer", "minimum": 0},
        "default": {},
        "description": "GPUs that a stack may have of a VM type, such as {h100-80gb-sxm-ib.8x: 256}.",
    },
}


def _pool(resource: Resource, parameters: Parameters) -> Iterator[Finding]:
    pool = {key: resource.read(key) for key in workloads.POOL_FIELDS}
    yield from gpu_cost.limits("count", [pool], parameters["maxGpus"], parameters["maxGpusByType"])


def _stack(stack: Stack, parameters: Parameters) -> Iterator[tuple[Resource, Finding]]:
    pools = stack.of(kinds.POOLS)
    if pools:
        judged = [{key: each.read(key) for key in workloads.POOL_FIELDS} for each in pools]
        most, by_type = parameters["maxGpus"], parameters["maxGpusByType"]
        # A pool that is too large by itself has been told so.
        if not any(gpu_cost.limits("count", [each], most, by_type) for each in judged):
            yield from ((pools[-1], each) for each in gpu_cost.limits("count", judged, most, by_type))


def _pools(*counts: int) -> list[examples.Declared]:
    return [examples.pool(f"pool-{index}", count=count) for index, count in enumerate(counts)]


POLICIES = [
    ResourcePolicy(
        name="gpu-limit-pool",
        refuses="No pool alone has more GPUs than the stack may have.",
        why="A slip in a number costs as much as the number says, by the hour.",
        fix="Lower the count, or raise maxGpus or maxGpusByType in the pack's configuration.",
        parameters=LIMITS,
        applies=kinds.POOLS,
        check=_pool,
        good=example("20 GPUs.", *_pools(2)),
        bad=example("2,000 GPUs, and 1,024 are allowed.", *_pools(200)),
    ),
    StackPolicy(
        name="gpu-limit-stack",
        refuses="A stack has no more GPUs in all, and of each type, than it may have.",
        why="Pools that are modest one by one can be a bill together.",
        fix="Lower a count, or raise maxGpus or maxGpusByType in the pack's configuration.",
        parameters=LIMITS,
        check=_stack,
        already="After a preview nothing. With --skip-preview all pools, and they are billed.",
        good=example("800 GPUs.", *_pools(40, 40)),
        bad=example("1,600 GPUs, and 1,024 are allowed.", *_pools(80, 80)),
    ),
]
