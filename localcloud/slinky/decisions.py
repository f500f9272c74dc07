"""Which workers of a NodeSet to make, cordon, release and delete: pure functions.

A worker goes only once Slurm says that its node is drained and idle. Without a Slurm client (no RestApi object), and
for a worker that Slurm doesn't know, that counts as true at once: the real operator fails open there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.slinky import placement
from localcloud.slinky.pods import PREFIX
from localcloud.slinky.rest import REASON_PREFIX, SlurmNode
from localcloud.slinky.values import Object, at, digest, items, name_of, part, words
from localcloud.slinky.worker import slurmd

CORDON = f"{PREFIX}/pod-cordon"
COST = f"{PREFIX}/pod-deletion-cost"
CORDON_REASON = f"{PREFIX}/node-cordon-reason"
INDEX = f"{PREFIX}/pod-index"
MODE = f"{PREFIX}/scaling-mode"
REVISION = "controller-revision-hash"
CAUSE = "local.crusoe.ai/pod-cordon-cause"
"""The stand-in's own note of why it cordoned a worker, so that it takes back only its own cordons."""

_REASON_LENGTH = 256
_REVISED = ("template", "slurmd", "extraConf", "logfile", "ssh", "ordinalPadding", "oversubscribeNode")
_PHASES = {"Pending": 0, "Unknown": 1}


@dataclass(frozen=True)
class Worker:
    """A worker's pod, with what Slurm and Kubernetes say of the node it runs on."""

    pod: Object
    slurm: SlurmNode | None = None
    node: Object | None = None

    @property
    def name(self) -> str:
        """The pod's name."""
        return name_of(self.pod)

    @property
    def terminating(self) -> bool:
        """Whether the pod is on its way out."""
        return bool(at(self.pod, "metadata", "deletionTimestamp"))

    @property
    def over(self) -> bool:
        """Whether the pod has ended and will not start again."""
        return at(self.pod, "status", "phase") in ("Failed", "Succeeded")

    @property
    def ready(self) -> bool:
        """Whether the pod is ready."""
        conditions = items(self.pod, "status", "conditions")
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    @property
    def cordoned(self) -> bool:
        """Whether the pod carries the cordon, whoever set it."""
        return self.annotation(CORDON) == "true"

    def annotation(self, key: str) -> str | None:
        """One of the pod's annotations."""
        return at(self.pod, "metadata", "annotations", key)

    def label(self, key: str) -> str | None:
        """One of the pod's labels."""
        return at(self.pod, "metadata", "labels", key)

    @property
    def hostname(self) -> str:
        """The Slurm node's name."""
        return self.label(f"{PREFIX}/pod-hostname") or self.name

    def gone_quietly(self, *, has_client: bool) -> bool:
        """Whether deleting the pod ends no job, as far as the operator can tell."""
        return not has_client or self.slurm is None or self.slurm.drained


@dataclass(frozen=True)
class Slot:
    """A worker to be made: its pod's name, its Slurm node's name, and the node it is pinned to in DaemonSet mode."""

    name: str
    hostname: str
    ordinal: int | None = None
    node: str | None = None


@dataclass(frozen=True)
class Plan:
    """What to do with a NodeSet's workers; `cordon` gives the cause and the reason for Slurm."""

    create: Sequence[Slot] = ()
    cordon: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    delete: Sequence[Worker] = ()
    desired: int = 0


def plan(
    node_set: Mapping[str, Any],
    workers: Sequence[Worker],
    nodes: Sequence[Object],
    *,
    has_client: bool,
    conditions: Collection[str] = (),
    suffix: str = "",
) -> Plan:
    """What to do now. `conditions` are the node conditions that become cordon reasons, `suffix` that of a new name."""
    mode = at(node_set, "spec", "scalingMode") or "StatefulSet"
    living = [worker for worker in workers if not worker.terminating]
    over = [worker for worker in living if worker.over]
    active = [worker for worker in living if not worker.over and worker.label(MODE) == mode]
    strangers = [worker for worker in living if not worker.over and worker.label(MODE) != mode]
    if mode == "DaemonSet":
        create, condemned, desired = _daemon_slots(node_set, active, nodes, suffix)
    else:
        desired = at(node_set, "spec", "replicas") or 0
        create = _numbered_slots(node_set, active, workers, desired)
        condemned = sorted(active, key=removal_order)[: max(len(active) - desired, 0)]
    going = [*strangers, *condemned]
    updating = _updating(node_set, [worker for worker in active if worker not in condemned], desired)
    cordon: dict[str, tuple[str, str]] = {}
    for worker in (worker for worker in living if not worker.over):
        if found := _cause(worker, going, updating, conditions):
            cordon[worker.name] = found
    delete = [worker for worker in [*going, *updating] if worker.gone_quietly(has_client=has_client)]
    return Plan(create, cordon, [*over, *delete], desired)


def removal_order(worker: Worker) -> tuple[Any, ...]:
    """The first in this order goes first when a NodeSet shrinks."""
    cost = worker.annotation(COST) or "0"
    return (
        bool(at(worker.pod, "spec", "nodeName")),
        _PHASES.get(at(worker.pod, "status", "phase") or "Pending", 2),
        worker.ready,
        int(cost) if cost.lstrip("-").isdigit() else 0,
        not worker.cordoned,
        -int(worker.label(INDEX) or 0),
        _reversed_time(worker),
    )


def revision(node_set: Mapping[str, Any]) -> str:
    """The hash of what makes a rollout; the object's own labels and annotations are not part of it."""
    return digest({key: at(node_set, "spec", key) for key in _REVISED})


def worker_pod(node_set: Mapping[str, Any], controller: Mapping[str, Any], slot: Slot) -> Object:
    """The pod of a slot. Raises ValueError for an `extraConf` that the operator can't read."""
    pod = slurmd(node_set, controller, slot.name, slot.hostname)
    labels = pod["metadata"]["labels"]
    labels[REVISION] = revision(node_set)
    if slot.ordinal is not None:
        labels[INDEX] = str(slot.ordinal)
    if slot.node is not None:
        pod["spec"] = placement.pinned(pod["spec"], slot.node)
    return pod


def cordon_reason(node: Mapping[str, Any], conditions: Collection[str]) -> str:
    """What Slurm is told of a cordoned node: its annotation, else a condition that is passed on, else the fact."""
    text = at(node, "metadata", "annotations", CORDON_REASON)
    if not text:
        true = [each for each in items(node, "status", "conditions") if each.get("status") == "True"]
        found = [each for each in true if each["type"] in conditions]
        text = "; ".join(f"{each['type']}: {each.get('message') or each.get('reason') or 'True'}" for each in found)
    if not text:
        text = f"Node {name_of(node)} was cordoned"
    clean = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return f"{REASON_PREFIX} {clean}"[:_REASON_LENGTH]


def max_unavailable(node_set: Mapping[str, Any], desired: int) -> int:
    """How many workers an update may have away at once; at least one, or it would never end."""
    value = at(node_set, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
    text = str("25%" if value is None else value)
    share = text.removesuffix("%")
    if not share.isdigit():
        return 1
    return max(1, math.floor(desired * int(share) / 100) if text.endswith("%") else int(share))


def status(node_set: Mapping[str, Any], workers: Sequence[Worker], desired: int) -> Object:
    """The NodeSet's status; counts of zero are left out, as in Slinky."""
    active = [worker for worker in workers if not worker.terminating and not worker.over]
    ready = sum(worker.ready for worker in active)
    slurm = [worker.slurm for worker in active if worker.slurm is not None]
    selector = {"app.kubernetes.io/instance": name_of(node_set), "app.kubernetes.io/name": "slurmd"}
    counts = {
        "desired": desired,
        "replicas": len(active),
        "updatedReplicas": sum(worker.label(REVISION) == revision(node_set) for worker in active),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": len(active) - ready,
        "slurmIdle": sum("IDLE" in node.states for node in slurm),
        "slurmAllocated": sum(bool(node.states & {"ALLOCATED", "MIXED"}) for node in slurm),
        "slurmDown": sum("DOWN" in node.states for node in slurm),
        "slurmDrain": sum(node.draining for node in slurm),
    }
    return {
        **{key: count or None for key, count in counts.items()},
        "observedGeneration": node_set["metadata"]["generation"],
        "nodeSetHash": revision(node_set),
        "collisionCount": 0,
        "selector": ",".join(f"{key}={value}" for key, value in selector.items()),
    }


def _cause(
    worker: Worker, going: Sequence[Worker], updating: Sequence[Worker], conditions: Collection[str]
) -> tuple[str, str] | None:
    if worker in going:
        return "scale-in", f"{REASON_PREFIX} Pod {worker.name} is to be removed"
    if worker in updating:
        return "update", f"{REASON_PREFIX} Pod {worker.name} is to be updated"
    if worker.node is not None and at(worker.node, "spec", "unschedulable"):
        return "node", cordon_reason(worker.node, conditions)
    if worker.cordoned and worker.annotation(CAUSE) is None:
        return "user", f"{REASON_PREFIX} Pod {worker.name} was cordoned"
    return None


def _updating(node_set: Mapping[str, Any], staying: Sequence[Worker], desired: int) -> list[Worker]:
    """Old workers that a rolling update takes now: all that aren't ready, and as many ready ones as may be away."""
    if (at(node_set, "spec", "updateStrategy", "type") or "RollingUpdate") != "RollingUpdate":
        return []
    wanted = revision(node_set)
    old = sorted((worker for worker in staying if worker.label(REVISION) != wanted), key=removal_order)
    away = [worker for worker in old if not worker.ready]
    # Whoever is missing is away as well: not ready, still ending, or not made yet.
    room = max_unavailable(node_set, desired) - (desired - sum(worker.ready for worker in staying))
    # Those that are being drained for it already come first.
    healthy = sorted((worker for worker in old if worker.ready), key=lambda each: each.annotation(CAUSE) != "update")
    return [*away, *healthy[: max(room, 0)]]


def _numbered_slots(
    node_set: Mapping[str, Any], active: Sequence[Worker], workers: Sequence[Worker], desired: int
) -> list[Slot]:
    """The lowest free numbers; one whose old pod is still ending has to wait for it."""
    name = name_of(node_set)
    prefix = at(node_set, "spec", "template", "spec", "hostname") or f"{name}-"
    padding = at(node_set, "spec", "ordinalPadding") or 0
    taken = {worker.label(INDEX) for worker in active}
    present = {worker.name for worker in workers}
    free = [number for number in range(desired + len(active)) if str(number) not in taken]
    slots = [
        Slot(f"{name}-{number:0{padding}d}", f"{prefix}{number:0{padding}d}", number)
        for number in free[: max(desired - len(active), 0)]
    ]
    return [slot for slot in slots if slot.name not in present]


def _daemon_slots(
    node_set: Mapping[str, Any], active: Sequence[Worker], nodes: Sequence[Object], suffix: str
) -> tuple[list[Slot], list[Worker], int]:
    pod_spec = slurmd(node_set, _ANY_CONTROLLER, "any", "any")["spec"]
    fitting = {name_of(node): node for node in nodes if placement.matches(pod_spec, node)}
    home = {worker.name: placement.pinned_node(worker.pod) for worker in active}
    condemned = [worker for worker in active if home[worker.name] not in fitting]
    missing = [node for name, node in sorted(fitting.items()) if name not in home.values()]
    slots = [
        Slot(f"{name_of(node_set)}-{digest(name_of(node), suffix)[:5]}", placement.slurm_name(node), node=name_of(node))
        for node in missing
        if not at(node, "spec", "unschedulable")
    ]
    return slots, condemned, len(fitting)


def _reversed_time(worker: Worker) -> tuple[int, ...]:
    created = words(part(worker.pod, "metadata")).get("creationTimestamp", "")
    return tuple(-ord(letter) for letter in created)


# Where a pod may run doesn't depend on its Controller.
_ANY_CONTROLLER: Object = {"metadata": {"name": "any", "namespace": "any"}, "spec": {}}
