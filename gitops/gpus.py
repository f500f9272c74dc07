"""How a plan changes the number of GPUs, by type and in whole hosts: from node pools' types and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crusoe import catalog
from crusoe.rules.values import table, text, whole
from gitops.changes import Resource
from gitops.model import Gpus, Op, Range

KINDS = {"crusoe:index:KubernetesNodePool", "crusoe:index:SlurmNodeSet"}
"""Resources that bring VMs: `type`, and `count` or `autoscaling: {min, max}`."""


def vms(properties: Mapping[str, object]) -> Range:
    """Return how many VMs a pool has."""
    bounds = table(properties.get("autoscaling"))
    if bounds:
        low = whole(bounds.get("min")) or 0
        return Range(low=low, high=max(low, whole(bounds.get("max")) or 0))
    count = whole(properties.get("count")) or 0
    return Range(low=count, high=count)


@dataclass
class _Sum:
    before: Range = field(default_factory=Range)
    after: Range = field(default_factory=Range)
    pools: list[str] = field(default_factory=list[str])


def changes(resources: Iterable[Resource]) -> list[Gpus]:
    """Return every GPU type whose pools change, also where the sum stays; types of no known size come last."""
    sums: dict[str, _Sum] = {}
    for pool in resources:
        if pool.type not in KINDS:
            continue
        sides = ((pool.before, "before"), (pool.after, "after"))
        for properties, side in sides:
            kind = text(properties.get("type"))
            if not kind:
                continue
            found = sums.setdefault(kind, _Sum())
            if side == "before":
                found.before += vms(properties)
            else:
                found.after += vms(properties)
            moved = pool.op is Op.REPLACE or vms(pool.before) != vms(pool.after) or _kinds(pool)
            if moved and pool.name not in found.pools:
                found.pools.append(pool.name)
    listed = [_gpus(kind, found) for kind, found in sums.items() if found.pools and not _is_cpu(kind)]
    return sorted(listed, key=lambda each: (each.gpus_before is None, each.type))


def _kinds(pool: Resource) -> bool:
    return pool.before.get("type") != pool.after.get("type")


def _is_cpu(kind: str) -> bool:
    known = catalog.vm_type(kind)
    return known is not None and not known.gpus


def _gpus(kind: str, found: _Sum) -> Gpus:
    known = catalog.vm_type(kind)
    return Gpus(
        type=kind,
        whole_host=known is not None and known.whole_host,
        vms_before=found.before,
        vms_after=found.after,
        gpus_before=_times(found.before, known.gpus) if known else None,
        gpus_after=_times(found.after, known.gpus) if known else None,
        pools=tuple(found.pools),
    )


def _times(number: Range, gpus: int) -> Range:
    return Range(low=number.low * gpus, high=number.high * gpus)
