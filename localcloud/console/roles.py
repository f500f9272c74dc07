"""Who holds which GPUs, and what a node's state is called: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from localcloud.autoclusters.incidents import Incident
from localcloud.console.gathering import Vm
from localcloud.console.sights import ClusterSight, NodeSight, PodSight

Role = Literal["training", "borrowed", "inference", "other", "spare", "out"]


@dataclass(frozen=True)
class Kind:
    """How something is shown: a letter or a shape, never a colour alone, with a word and what it means."""

    sign: str
    word: str
    meaning: str


ROLES: Mapping[Role, Kind] = {
    "training": Kind("T", "training", "held by Slurm's workers on nodes of their own"),
    "borrowed": Kind("B", "borrowed", "held by Slurm's workers on nodes that inference may take back"),
    "inference": Kind("I", "inference", "held by pods of a share of inference"),
    "other": Kind("O", "other", "held by pods outside of any share"),
    "spare": Kind("·", "spare", "held by nobody"),
    "out": Kind("x", "out of service", "broken, or held by nobody on a node that takes no pods"),
}

State = Literal[
    "fault", "repair", "no-power", "not-ready", "drained", "closed", "starting", "leaving", "busy", "free", "unseen"
]
STATES: Mapping[State, Kind] = {
    "fault": Kind("✕", "fault", "a GPU is broken, and no repair goes on"),
    "repair": Kind("◆", "under repair", "AutoClusters empties or replaces it"),
    "no-power": Kind("▼", "no power", "its power is cut"),
    "not-ready": Kind("!", "not ready", "Kubernetes hears nothing of it"),
    "drained": Kind("◑", "drained", "Slurm gives it no new jobs"),
    "closed": Kind("◐", "closed", "cordoned: it takes no new pods"),
    "starting": Kind("△", "starting", "its VM is on the way"),
    "leaving": Kind("▽", "leaving", "its VM is being deleted"),
    "busy": Kind("●", "in use", "somebody holds GPUs of it"),
    "free": Kind("○", "free", "ready, and nobody holds a GPU of it"),
    "unseen": Kind("□", "not seen yet", "Kubernetes was not asked yet"),
}
"""From what has to be seen first to what may be overlooked."""

WELL: Sequence[State] = ("busy", "free", "starting", "leaving", "unseen")

_REPAIRING = ("isolated", "replacing", "stalled")
_CLOSED: Sequence[State] = ("fault", "repair", "no-power", "not-ready", "closed", "starting", "leaving", "unseen")


@dataclass(frozen=True)
class Node:
    """A node with all that is known of it. `held` counts its GPUs by role, all of them; `jobs` are ids."""

    vm: Vm
    state: State
    held: Mapping[Role, int]
    sight: NodeSight | None = None
    pods: Sequence[PodSight] = ()
    workers: Sequence[str] = ()
    jobs: Sequence[str] = ()
    incident: Incident | None = None


def role(pod: PodSight) -> Role:
    """The role of a pod that has GPUs, as its labels tell."""
    if pod.worker:
        return "borrowed" if pod.part == "borrow" or pod.lent else "training"
    return "inference" if pod.part in ("floor", "burst") or pod.share else "other"


def nodes(
    vms: Sequence[Vm], gpus: int, sight: ClusterSight | None, incidents: Mapping[str, Incident]
) -> Sequence[Node]:
    """The nodes of a pool whose VMs have so many GPUs each. `incidents` is the newest of each VM, by its id."""
    pods, jobs = _by_node(sight), _jobs_of_workers(sight)
    return tuple(_node(vm, gpus, sight, pods.get(vm.name, ()), jobs, incidents.get(vm.id)) for vm in vms)


def _by_node(sight: ClusterSight | None) -> Mapping[str, Sequence[PodSight]]:
    found: dict[str, list[PodSight]] = {}
    for pod in sight.pods if sight else ():
        found.setdefault(pod.node, []).append(pod)
    return found


def _jobs_of_workers(sight: ClusterSight | None) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for job in sight.jobs if sight else ():
        for name in job.nodes if job.running else ():
            found.setdefault(name, []).append(job.id)
    return found


def _node(
    vm: Vm,
    gpus: int,
    sight: ClusterSight | None,
    pods: Sequence[PodSight],
    jobs: Mapping[str, Sequence[str]],
    incident: Incident | None,
) -> Node:
    seen = sight.nodes.get(vm.name) if sight else None
    workers = tuple(pod.worker for pod in pods if pod.worker)
    holders: dict[Role, int] = dict.fromkeys(ROLES, 0)
    for pod in pods:
        if pod.gpus:
            holders[role(pod)] += pod.gpus
    taken = sum(holders.values())
    state = _state(vm, seen, sight, workers, incident, holds=taken > 0)
    lost = min(len(seen.lost), gpus) if seen else 0
    for _ in range(taken + lost - gpus):
        # What fell off the bus is nobody's, though a pod has asked for it.
        holders[max(holders, key=lambda name: holders[name])] -= 1
    left = gpus - sum(holders.values())
    out = left if state in _CLOSED else lost
    held: dict[Role, int] = {**holders, "out": out, "spare": left - out}
    running = tuple(dict.fromkeys(job for worker in workers for job in jobs.get(worker, ())))
    return Node(vm, state, held, seen, pods, workers, running, incident)


def _state(
    vm: Vm,
    seen: NodeSight | None,
    sight: ClusterSight | None,
    workers: Sequence[str],
    incident: Incident | None,
    *,
    holds: bool,
) -> State:
    if vm.state == "STATE_CREATING":
        return "starting"
    if vm.state == "STATE_DELETING":
        return "leaving"
    if incident is not None and incident.phase in _REPAIRING:
        return "repair"
    if seen is None:
        return "not-ready" if sight and sight.nodes else "unseen"
    if not seen.power:
        return "no-power"
    if seen.lost or seen.unhealthy or (incident is not None and incident.open):
        return "fault"
    if not seen.ready:
        return "not-ready"
    if seen.cordoned:
        return "closed"
    if sight and any(sight.slurm_nodes[name].drained for name in workers if name in sight.slurm_nodes):
        return "drained"
    return "busy" if holds else "free"


def total(found: Sequence[Node]) -> Mapping[Role, int]:
    """The GPUs of several nodes by role."""
    return {name: sum(each.held[name] for each in found) for name in ROLES}
