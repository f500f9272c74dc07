"""How many GPUs a stack may have, whatever else is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crusoe import catalog
from crusoe.rules import pool_size
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, whole


def gpus(pool: object) -> tuple[str, int] | None:
    """Return type and most GPUs of a pool `{type, count?, autoscaling?}`; None when they can't be told."""
    given = table(pool)
    kind, nodes = catalog.vm_type(given.get("type")), pool_size.most_nodes(given)
    return (kind.name, kind.gpus * max(0, nodes)) if kind is not None and nodes is not None else None


def limits(path: str, pools: Iterable[object], most: object, by_type: object) -> Iterator[Finding]:
    """Refuse more GPUs than a stack may have, in all and of each type; a limit of None is none."""
    counted: dict[str, int] = {}
    for pool in pools:
        if (found := gpus(pool)) is not None:
            counted[found[0]] = counted.get(found[0], 0) + found[1]
    total, limit = sum(counted.values()), whole(most)
    if limit is not None and total > limit:
        fix = f"Take {total - limit} away, or raise maxGpus"
        yield Finding(path, f"{total} GPUs in all, and {limit} are allowed", fix)
    for name, allowed in table(by_type).items():
        number, has = whole(allowed), counted.get(name, 0)
        if number is not None and has > number:
            fix = f"Take {has - number} away, or raise maxGpusByType.{name}"
            yield Finding(path, f"{has} GPUs of {name}, and {number} are allowed", fix)
