"""Which AutoClusters actions a plan changes: per issue on CMK v1, per pool on CMK v2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crusoe.rules.values import table, text
from gitops.changes import Resource
from gitops.model import Op, Repair

_CONFIG = "crusoe:index:AutoClustersConfig"
_POOL = "crusoe:index:KubernetesNodePool"
OFF = "OFF"


def changes(resources: Iterable[Resource]) -> list[Repair]:
    """Return what changes. An issue that is not named is OFF: the configuration sets it so."""
    return sorted(set(_changes(resources)), key=lambda each: each.subject)


def _changes(resources: Iterable[Resource]) -> Iterator[Repair]:
    for resource in resources:
        if resource.op is Op.SAME:
            continue
        old = table(resource.old.inputs if resource.old else None)
        new = resource.after
        if resource.type == _CONFIG:
            before, after = table(old.get("remediationActions")), table(new.get("remediationActions"))
            for issue in {*before, *after}:
                pair = (text(before.get(issue)) or OFF, text(after.get(issue)) or OFF)
                if pair[0] != pair[1]:
                    yield Repair(subject=issue, old=pair[0], new=pair[1])
            fallback = "fallbackToProjectReservations"
            if (old.get(fallback) is True) != (new.get(fallback) is True):
                said = ("on" if side.get(fallback) is True else "off" for side in (old, new))
                yield Repair(subject="repairs from reserved capacity", old=next(said), new=next(said))
        elif resource.type == _POOL:
            # Left out it is off, as the provider sends it.
            consents = tuple(text(side.get("consentMode")) for side in (old, new))
            mode = [each or "off" for each in consents]
            if mode[0] != mode[1]:
                yield Repair(subject=f"pool {resource.name}", old=mode[0], new=mode[1])
