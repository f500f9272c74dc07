"""How many GPUs a stack may have, whatever else is right."""

from __future__ import annotations

from crusoe import catalog
from crusoe.rules import pool_size
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, whole


def gpus(pool: object) -> tuple[str, int] | None:
    """Return type and most GPUs of a pool `{type, count?, autoscaling?}`; None when they can't be told."""
    given = table(pool)
    kind, nodes = catalog.vm_type(given.get("type")), pool_size.most_nodes(given)
    return (kind.name, kind.gpus * max(0, nodes)) if kind is not None and nodes is not None else None


def limits(path: str, pools: object, most: object, by_type: object) -> list[Finding]:
    """Refuse more GPUs than a stack may have, in all and of each type; a limit of None is none."""
    counted: dict[str, int] = {}
    for pool in items(pools):
        if (has := gpus(pool)) is not None:
            counted[has[0]] = counted.get(has[0], 0) + has[1]
    found: list[Finding] = []
    total, limit = sum(counted.values()), whole(most)
    if limit is not None and total > limit:
        fix = f"Take {total - limit} away, or raise maxGpus"
        found.append(Finding(path, f"{total} GPUs in all, and {limit} are allowed", fix))
    for name, allowed in table(by_type).items():
        number, have = whole(allowed), counted.get(name, 0)
        if number is not None and have > number:
            fix = f"Take {have - number} away, or raise maxGpusByType.{name}"
            found.append(Finding(path, f"{have} GPUs of {name}, and {number} are allowed", fix))
    return found
