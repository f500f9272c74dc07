"""How many nodes a pool has: at least, at most, and how many of them are spares."""

from __future__ import annotations

from crusoe.rules.finding import Finding
from crusoe.rules.values import table, whole


def least_nodes(pool: object) -> int | None:
    """Return the nodes that a pool always has: its count, or autoscaling's lower bound. None when it gives neither."""
    bounds = table(table(pool).get("autoscaling"))
    return whole(bounds.get("min")) if bounds else whole(table(pool).get("count"))


def most_nodes(pool: object) -> int | None:
    """Return the nodes that a pool may have: its count, or autoscaling's upper bound. None when it gives neither."""
    bounds = table(table(pool).get("autoscaling"))
    return whole(bounds.get("max")) if bounds else whole(table(pool).get("count"))


def declared(path: str, pool: object) -> list[Finding]:
    """Check that a pool says how many nodes it is to have."""
    given = table(pool)
    if not given or given.get("count") is not None or given.get("autoscaling") is not None:
        return []
    return [Finding(f"{path}.count", "neither a count nor autoscaling says how many nodes there are to be", "Write 2")]


def reserve(path: str, value: object, pool: object) -> list[Finding]:
    """Check that the spares leave at least one node to work with.

    `pool` is `{count?, autoscaling?}`; with autoscaling only the lower bound can be counted on.
    """
    spares, nodes = whole(value), least_nodes(pool)
    if spares is None:
        return []
    if spares < 0:
        return [Finding(path, f"{spares} is below zero", "Write 0 for no spares")]
    if nodes is not None and 0 <= nodes <= spares and spares > 0:
        problem = f"{spares} spares of {nodes} nodes leave none to work with"
        return [Finding(path, problem, f"Write {max(0, nodes - 1)}, or ask for at least {spares + 1} nodes")]
    return []
