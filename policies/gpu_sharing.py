"""GPUs that are shared: no more promised than there are, and nobody past the promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crusoe import catalog
from crusoe.rules import gpu_quota, pool_size
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text
from policies import examples, kinds, values, workloads
from policies.examples import Declared
from policies.policy import Parameters, Resource, ResourcePolicy, Stack, StackPolicy, example

QUOTAS = kinds.kubernetes("ResourceQuota")
CLASSES = kinds.kubernetes("PriorityClass")

Found = Iterator[tuple[Resource, Finding]]


def _capacity(stack: Stack) -> Mapping[str, int] | None:
    """Return the GPUs of the stack's pools by resource name, None where it has no pool whose GPUs are known."""
    counted: dict[str, int] = {}
    for resource in stack.of(kinds.POOLS):
        pool = workloads.pool_of(resource)
        kind = catalog.vm_type(pool["type"])
        if kind is None:
            return None
        if kind.resource_name is not None:
            nodes = pool_size.most_nodes(pool) or 0
            counted[kind.resource_name] = counted.get(kind.resource_name, 0) + nodes * kind.gpus
    return counted or None


def _values_of_classes(stack: Stack) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for each in stack.of(CLASSES):
        name, value = text(each.known("metadata", "name")), gpu_quota.amount(each.known("value"))
        if name is not None and value is not None:
            found[name] = value
    return found


def _above_capacity(stack: Stack, _: Parameters) -> Found:
    quotas = [(each, table(each.known("spec"))) for each in stack.of(QUOTAS)]
    if not quotas:
        return
    capacity, ranks = _capacity(stack), _values_of_classes(stack)
    if capacity is None:
        return
    top = max((ranks.get(name, 0) for _, spec in quotas for name in gpu_quota.classes(spec)), default=0)
    for name in kinds.GPU_RESOURCES:
        promised, last = 0, None
        path = f"spec.hard.requests.{name}"
        for quota, spec in quotas:
            asked, have = gpu_quota.of(spec, name), capacity.get(name, 0)
            if not asked:
                continue
            alone = gpu_quota.above_capacity(path, asked, have)
            yield from ((quota, each) for each in alone)
            # What gives way to others is promised to nobody.
            named = gpu_quota.classes(spec)
            if not alone and (not named or any(ranks.get(each, top) >= top for each in named)):
                promised, last = promised + asked, quota
        if last is not None:
            what = "with the others that give way to none it promises"
            yield from ((last, each) for each in gpu_quota.above_capacity(path, promised, capacity.get(name, 0), what))


def _outside(stack: Stack, _: Parameters) -> Found:
    shares: dict[str, int] = {}
    for quota in stack.of(QUOTAS):
        spec, namespace = quota.known("spec"), text(quota.known("metadata", "namespace")) or "default"
        of_gpus = [gpu_quota.of(spec, name) for name in kinds.GPU_RESOURCES]
        if any(each is not None for each in of_gpus):
            shares[namespace] = shares.get(namespace, 0) + sum(each or 0 for each in of_gpus)
    if not shares:
        return
    for resource in stack.of(kinds.HAS_PODS):
        if kinds.asks_for_gpus(resource):
            for path, _kind, fields in kinds.objects(resource):
                namespace = values.at(fields, "metadata", "namespace")
                if namespace is values.UNKNOWN:
                    resource.read(*path, "metadata", "namespace")
                    continue
                found = gpu_quota.outside_share(values.spoken((*path, "metadata", "namespace")), namespace, shares)
                yield from ((resource, each) for each in found)


def _priority(resource: Resource, parameters: Parameters) -> Iterator[Finding]:
    for path, _kind, _fields in kinds.objects(resource):
        name = text(resource.read(*path, "metadata", "name")) or ""
        if not name.startswith("system-"):
            place = (*path, "value")
            yield from gpu_quota.priority(values.spoken(place), resource.read(*place), parameters["floor"])


_POOL = examples.pool()


def _quota(namespace: str, gpus: int) -> Declared:
    return {
        "type": "kubernetes:core/v1:ResourceQuota",
        "name": f"quota-{namespace}",
        "properties": {
            "metadata": {"name": "gpus", "namespace": namespace},
            "spec": {"hard": {"requests.nvidia.com/gpu": str(gpus)}},
        },
    }


def _pod(namespace: str) -> Declared:
    spec = {"containers": [examples.gpu_container()]}
    properties = {"metadata": {"name": "model", "namespace": namespace}, "spec": spec}
    return {"type": "kubernetes:core/v1:Pod", "name": "model", "properties": properties}


def _class(value: int) -> Declared:
    properties = {"metadata": {"name": "urgent"}, "value": value}
    return {"type": "kubernetes:scheduling.k8s.io/v1:PriorityClass", "name": "urgent", "properties": properties}


_ALREADY = "After a preview nothing. With --skip-preview all that the program declares, pods that wait included."

POLICIES = [
    StackPolicy(
        name="gpu-quota-capacity",
        refuses="Quotas promise no more GPUs than the pools have.",
        why="Who comes last waits for GPUs that were never there, with nothing to say why.",
        fix="Lower a quota until all of them fit, or add nodes.",
        check=_above_capacity,
        already=_ALREADY,
        good=example("20 GPUs, all promised.", _POOL, _quota("slurm", 10), _quota("chat", 10)),
        bad=example("20 GPUs, 24 promised.", _POOL, _quota("slurm", 16), _quota("chat", 8)),
    ),
    StackPolicy(
        name="gpu-pod-outside-share",
        refuses="Where GPUs are shared, pods with GPUs are in a namespace with a share.",
        why="They take GPUs that a quota has promised to somebody else.",
        fix="Move them to a namespace with a quota of GPUs, or give theirs one.",
        check=_outside,
        already=_ALREADY,
        good=example("In a namespace with a share.", _POOL, _quota("chat", 8), _pod("chat")),
        bad=example("Beside the shares.", _POOL, _quota("chat", 8), _pod("playground")),
    ),
    ResourcePolicy(
        name="gpu-priority-above-floor",
        refuses="No priority class stands above the guaranteed shares.",
        why="Its pods push training and models from GPUs that they were promised.",
        fix=f"Write a value of {gpu_quota.FLOOR_PRIORITY} or less.",
        parameters={
            "floor": {
                "type": "integer",
                "minimum": 0,
                "default": gpu_quota.FLOOR_PRIORITY,
                "description": "Value of the priority class of guaranteed shares.",
            }
        },
        applies=CLASSES,
        check=_priority,
        good=example("Below the guaranteed shares.", _class(10_000)),
        bad=example("Above them.", _class(1_000_000)),
    ),
]
