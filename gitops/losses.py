"""What can't be taken back: replacements and deletions of clusters, GPU pools, NodeSets, disks and keys, and new keys.

A retired GPU pool is approved by that: its nodes are drained before it goes. Everything else needs a person's word on
exactly these losses, a label that is made of them. What is protected Pulumi refuses itself, label or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from crusoe import catalog
from gitops.changes import Resource
from gitops.gpus import vms
from gitops.model import Loss, Op

LABEL = "approve-loss-"
"""How the label begins; the rest stands for the losses."""


@dataclass(frozen=True)
class _Kind:
    what: str
    lost: Callable[[Resource], str]
    instead: str = ""
    """How to do without the loss."""


def _named(resource: Resource, name: str) -> str:
    value = resource.before.get(name)
    return value if isinstance(value, str) else ""


def _cluster(_: Resource) -> str:
    return "the control plane, every object in it, and all jobs and pods that run there"


def _slurm_cluster(_: Resource) -> str:
    return "Slurm's queue, its accounting, /home and all running jobs"


def _pool(resource: Resource) -> str:
    kind = _named(resource, "type") or "an unknown type"
    number = vms(resource.before)
    vm = catalog.vm_type(kind)
    gpus = f", {vm.gpus * number.high} GPUs" if vm else ""
    return f"{number} nodes of {kind}{gpus}: the pods and jobs on them end, and the capacity may not be had again"


def _node_set(_: Resource) -> str:
    return "its Slurm nodes, with the jobs that run on them"


def _disk(resource: Resource) -> str:
    size = _named(resource, "size")
    return f"all data on it{f' ({size})' if size else ''}; there is no way back without a backup"


def _claim(_: Resource) -> str:
    return "the volume's data, unless its storage class retains it"


def _volume(_: Resource) -> str:
    return "the binding to the disk; the data goes with it unless the disk is declared by itself or retained"


def _key(_: Resource) -> str:
    return "the key; whatever trusts it must be given the new one at once"


_POOL = _Kind(
    "GPU pool",
    _pool,
    "set `retire: true` on it and run `up` first, which drains its nodes, then take it out of the settings "
    "(docs/concepts.md, `Removing a node pool`); for another type add a second pool before",
)
_NODE_SET = _Kind("NodeSet", _node_set, "drain its nodes in Slurm first")
_SECRET = "crusoe:index:GeneratedSecret"  # noqa: S105 - a type's name
_KEY = _Kind("key", _key, "docs/runbooks/rotate-slurm-keys.md has the order of steps")
_KINDS = {
    "crusoe:index:KubernetesCluster": _Kind("cluster", _cluster, "bring up a second cluster and move the work over"),
    "crusoe:index:SlurmCluster": _Kind("cluster", _slurm_cluster, "bring up a second cluster and move the work over"),
    "crusoe:index:KubernetesNodePool": _POOL,
    "crusoe:index:SlurmNodeSet": _NODE_SET,
    "crusoe:index:StorageDisk": _Kind("disk", _disk, "copy the data to another disk first"),
    "kubernetes:core/v1:PersistentVolumeClaim": _Kind("disk", _claim, "copy the data first"),
    "kubernetes:core/v1:PersistentVolume": _Kind("disk", _volume, "copy the data first"),
    _SECRET: _KEY,
}


def _kind(resource: Resource) -> _Kind | None:
    kind = _KINDS.get(resource.type)
    if kind is _POOL:
        known = catalog.vm_type(resource.before.get("type"))
        return None if known and not known.gpus else kind
    if resource.type.startswith("kubernetes:slinky.slurm.net/") and resource.type.endswith(":NodeSet"):
        return _NODE_SET
    # The Secrets that hold Slurm's keys.
    if resource.type == "kubernetes:core/v1:Secret" and "gpuplatform:slurm:Keys" in resource.urn:
        return _KEY
    return kind


def losses(resources: Iterable[Resource], labels: Collection[str] = ()) -> list[Loss]:
    """Return what would be lost, the blocked first; `labels` are those that people have given the change."""
    taken = [(each, kind) for each in resources if _goes(each) and (kind := _kind(each)) is not None]
    open_ones = [each for each, _ in taken if not _is_retired(each)]
    given = label(open_ones)
    approved = given in {each.strip() for each in labels}
    found: list[Loss] = []
    for each, kind in taken:
        retired = _is_retired(each)
        found.append(
            Loss(
                what=kind.what,
                name=each.name,
                urn=each.urn,
                op=each.op,
                lost=kind.lost(each),
                approve=_way(each, kind, given),
                approved_by="retire" if retired else f"the label {given}" if approved else None,
                blocked=each.protected and each.op is not Op.UPDATE,
            )
        )
    return sorted(found, key=lambda loss: (not loss.blocked, loss.approved_by is not None))


def _goes(resource: Resource) -> bool:
    return resource.op in (Op.DELETE, Op.REPLACE) or _is_drawn_anew(resource)


def _is_drawn_anew(resource: Resource) -> bool:
    """Whether another key takes the place of this one, under the same resource."""
    return (
        resource.type == _SECRET
        and resource.op is Op.UPDATE
        and any(one.path.startswith("keepers") for one in resource.properties)
    )


def _is_retired(resource: Resource) -> bool:
    """Whether it goes empty: a pool whose nodes were drained, or the NodeSet that had its workers there."""
    kind = _kind(resource)
    drained = kind is _POOL and resource.before.get("drained") is True
    spec = resource.before.get("spec")
    empty = kind is _NODE_SET and isinstance(spec, dict) and cast("dict[str, Any]", spec).get("replicas") == 0
    return resource.op is Op.DELETE and (drained or empty)


def _way(resource: Resource, kind: _Kind, given: str | None) -> str:
    if _is_retired(resource):
        return "its nodes were drained (`retire`)"
    if resource.op is Op.UPDATE:
        return f"put the label `{given}` on the pull request; {kind.instead}"
    if resource.protected and kind is not _POOL:
        return f"take its protection off first (`platform.protect: false`, with an `up` of its own); or {kind.instead}"
    if resource.protected:
        return kind.instead
    return f"put the label `{given}` on the pull request; or {kind.instead}"


def label(resources: Sequence[Resource]) -> str | None:
    """Return the label that approves the loss of exactly these; None where there is none.

    A push that changes what is lost makes it another label, so that an approval never covers what nobody has seen.
    """
    if not resources:
        return None
    said = "\n".join(
        sorted(
            f"{each.op} {each.urn} {each.old.id if each.old else ''} "
            + " ".join(one.path for one in each.properties if one.replaces)
            for each in resources
        )
    )
    return f"{LABEL}{hashlib.sha256(said.encode()).hexdigest()[:12]}"
