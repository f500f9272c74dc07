"""One of the two actors works, the other waits: a lease of Kubernetes says which."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from actor.read import number, part, seconds

NAME = "slurm-actor"
SECONDS = 15
"""How long a leader that says nothing stays the leader."""


@dataclass(frozen=True)
class Wanted:
    """What a lease is to become, to be the leader; `taken` from somebody else or nobody."""

    lease: dict[str, Any]
    taken: bool


def claim(lease: Mapping[str, Any] | None, me: str, now: float) -> Wanted | None:
    """The lease with me as its holder; None while somebody else holds it."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = part(lease or {}, "spec")
    holder = spec.get("holderIdentity") or ""
    # One second more, since the time of its renewal is cut to whole seconds here.
    alive = seconds(spec.get("renewTime")) + (number(spec.get("leaseDurationSeconds")) or SECONDS) + 1 > now
    if holder and holder != me and alive:
        return None
    mine = holder == me
    return Wanted(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": part(lease or {}, "metadata") or {"name": NAME},
            "spec": {
                "holderIdentity": me,
                "leaseDurationSeconds": SECONDS,
                "acquireTime": spec.get("acquireTime") if mine else stamp,
                "renewTime": stamp,
                "leaseTransitions": number(spec.get("leaseTransitions")) + (not mine and bool(holder)),
            },
        },
        taken=not mine,
    )
