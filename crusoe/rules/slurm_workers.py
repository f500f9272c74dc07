"""Waiting for the workers of a Slinky NodeSet."""

from __future__ import annotations

from crusoe.rules.finding import Finding
from crusoe.rules.values import whole


def min_ready(path: str, value: object, replicas: object) -> list[Finding]:
    """Check that no more workers have to be ready than there are to be."""
    least, wanted = whole(value), whole(replicas)
    if least is None or wanted is None or not 0 <= wanted < least:
        return []
    return [Finding(path, f"{least} is more than the workers asked for, {wanted}", f"Write {wanted}")]
