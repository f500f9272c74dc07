"""After `up`: whether the GPUs that are there still carry what is promised. Pure functions, nothing is changed.

A dead node turns a right sum into a wrong one, and no quota, class or queue notices: all of them count what was
declared. So the promises are told as an output of the stack, and compared with what the nodes can give.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.gpu_sharing.plan import SharingPlan
from crusoe.rules.gpu_units import gpus_of
from crusoe.rules.values import items, table, text

Expected = dict[str, Any]


def expected(plan: SharingPlan) -> Expected:
    """What each pool promises, by its key: `{nodePool, resource, gpusPerNode, floorNodes, homeNodes}`."""
    return {
        pool.key: {
            "nodePool": pool.node_pool,
            "resource": pool.resource,
            "gpusPerNode": pool.gpus,
            "floorNodes": pool.floor,
            "homeNodes": pool.homes,
        }
        for pool in plan.pools
    }


def short(promises: Mapping[str, Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]], label: str) -> Iterator[str]:
    """One sentence for each pool whose ready nodes can't give what is promised.

    `nodes` are Kubernetes' own documents; `label` is the label with the name of their node pool.
    """
    there: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        name = text(table(table(node.get("metadata")).get("labels")).get(label))
        if name is not None and _ready(node):
            there.setdefault(name, []).append(node)
    for key, promise in promises.items():
        size = promise["gpusPerNode"]
        gpus = [_gpus(node, promise["resource"]) for node in there.get(promise["nodePool"], [])]
        whole = sum(each >= size for each in gpus)
        floor, homes = promise["floorNodes"], promise["homeNodes"]
        if whole < floor + homes:
            yield (
                f"{key}: {floor} floor nodes + {homes} home nodes = {floor + homes} are promised, "
                f"{gpus_of(floor + homes, size)} GPUs, but {whole} ready nodes have all their {size} GPUs "
                f"({sum(gpus)} GPUs in all)."
            )


def over(quotas: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One sentence for each quota that was lowered below what runs: it takes nothing away by itself."""
    for quota in quotas:
        metadata, status = table(quota.get("metadata")), table(quota.get("status"))
        used = table(status.get("used"))
        for resource, hard in table(status.get("hard")).items():
            most, now = _number(hard), _number(used.get(resource))
            if now > most:
                place = f"{metadata.get('namespace')}/{metadata.get('name')}"
                yield f"{place}: {now} {resource.removeprefix('requests.')} run where {most} may, over by {now - most}."


def _ready(node: Mapping[str, Any]) -> bool:
    if table(node.get("spec")).get("unschedulable") is True:
        return False
    conditions = items(table(node.get("status")).get("conditions"))
    return any(table(each).get("type") == "Ready" and table(each).get("status") == "True" for each in conditions)


def _gpus(node: Mapping[str, Any], resource: str) -> int:
    return _number(table(table(node.get("status")).get("allocatable")).get(resource))


def _number(value: object) -> int:
    """A count as Kubernetes writes it; 0 for none."""
    given = str(value)
    return int(given) if given.isdecimal() else 0
