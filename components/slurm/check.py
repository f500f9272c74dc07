"""Slurm's GPUs against Kubernetes' and the catalogue's, node by node: pure functions from three sources to a report.

Reads nothing (components.slurm.check_sources does) and prints nothing (components.slurm.check_command does).

A GPU counts in all three places or it is a finding: the catalogue says how many a VM of the type has, Kubernetes how
many the node offers (`allocatable`, so one that its device plugin calls unhealthy is missing), Slurm how many its
slurmd registered. A node that takes no jobs is a finding too, whatever its numbers, and so is a worker that is missing.
Not one: a spare host with all of its GPUs, and what Slurm remembers of a worker that is gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.slurm.check_report import Report, Row
from crusoe import catalog

OUT_OF_SERVICE: Mapping[str, str] = {
    "INVALID_REG": "refused when it registered",
    "DOWN": "down",
    "DRAIN": "drained",
    "FAIL": "failing",
    "NOT_RESPONDING": "not responding",
    "POWERED_DOWN": "powered down",
    "UNKNOWN": "not seen yet",
}
"""States of a Slurm node (26.05) in which no job starts on it, in words; of several the first counts."""
BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})


@dataclass(frozen=True)
class NodeSet:
    """What the stack says of a node set; see docs/outputs.md. With `nodes` None each host has a worker.

    Workers on `lent` nodes may wait for one, and are no promise; nor are those beyond `nodes` of a set that may have
    `most`.
    """

    type: str
    gpus: int
    nodes: int | None = None
    pool: str | None = None
    lent: bool = False
    most: int | None = None


@dataclass(frozen=True)
class Host:
    """A Kubernetes node: its VM type and node pool, and the GPUs that it offers to pods."""

    name: str
    type: str
    pool: str
    gpus: int
    cordoned: bool = False


@dataclass(frozen=True)
class Worker:
    """A slurmd pod: its NodeSet object, the node that it is in Slurm, and where it runs; None while it waits."""

    node_set: str
    slurm_node: str
    host: str | None


@dataclass(frozen=True)
class SlurmNode:
    """A node as slurmctld knows it: the GPUs that its slurmd registered, its states, and the reason given for them."""

    name: str
    gpus: int
    states: tuple[str, ...]
    reason: str = ""

    @property
    def trouble(self) -> str:
        """Why it takes no jobs, in words; empty where it does."""
        state = next((state for state in OUT_OF_SERVICE if state in self.states), None)
        if state is None:
            return ""
        word = "draining" if state == "DRAIN" and BUSY & set(self.states) else OUT_OF_SERVICE[state]
        return f"{word}: {self.reason}" if self.reason else word


@dataclass(frozen=True)
class Seen:
    """What was found. `slurm` is None where slurmctld did not answer, and `silence` says why."""

    hosts: Sequence[Host]
    workers: Sequence[Worker]
    slurm: Sequence[SlurmNode] | None
    silence: str = ""


def compare(expected: Mapping[str, Any], seen: Seen) -> Report:
    """Compare what was found with `expected`, the stack's output `slurm`."""
    cluster_name = str(expected["clusterName"])
    sets = {key: _node_set(each) for key, each in expected["nodeSets"].items()}
    hosts = {host.name: host for host in seen.hosts}
    nodes = {node.name: node for node in seen.slurm or ()}
    # Managed Slurm's objects have the cluster's name before that of the node set.
    names = {name: key for key in sets for name in (key, f"{cluster_name}-{key}")}
    own = [(names[worker.node_set], worker) for worker in seen.workers if worker.node_set in names]
    rows = [
        _worker(key, sets[key], worker, hosts.get(worker.host or ""), nodes.get(worker.slurm_node), seen)
        for key, worker in sorted(own, key=lambda each: (each[0], len(each[1].slurm_node), each[1].slurm_node))
    ]
    rows += _idle(sets, seen)
    counts = {key: sum(1 for name, _ in own if name == key) for key in sets}
    placed = {key: sum(1 for name, worker in own if name == key and worker.host is not None) for key in sets}
    wanted = sum(each.gpus * _promised(each, counts[key], placed[key]) for key, each in sets.items())
    return Report(str(expected["mode"]), cluster_name, tuple(rows), tuple(_beyond(sets, counts, placed, seen)), wanted)


def _promised(own: NodeSet, there: int, placed: int) -> int:
    """Workers whose GPUs have to be there."""
    if own.lent:
        return placed
    if own.most is not None:
        return max(own.nodes or 0, placed)
    return there if own.nodes is None else own.nodes


def _node_set(told: Mapping[str, Any]) -> NodeSet:
    kind = catalog.vm_type(told["type"])
    nodes, pool, most = told.get("nodes"), told.get("nodePool"), told.get("atMost")
    return NodeSet(
        type=str(told["type"]),
        gpus=kind.gpus if kind else int(told["gpusPerNode"]),
        nodes=None if nodes is None else int(nodes),
        pool=None if pool is None else str(pool),
        lent=told.get("lent") is True,
        most=None if most is None else int(most),
    )


def _beyond(
    sets: Mapping[str, NodeSet], counts: Mapping[str, int], placed: Mapping[str, int], seen: Seen
) -> Iterator[str]:
    if seen.slurm is None:
        yield f"Slurm's controller does not answer: {seen.silence}. No job starts until it does."
    for key, each in sets.items():
        there = counts[key] if each.most is None else placed[key]
        if each.nodes is not None and there < each.nodes:
            yield (
                f"{key} has {there} of {each.nodes} workers. `kubectl get nodesets,pods -n slurm` and "
                f"`kubectl get events -n slurm` say what holds the others back."
            )


def _worker(key: str, own: NodeSet, worker: Worker, host: Host | None, node: SlurmNode | None, seen: Seen) -> Row:
    """A worker's row."""
    type_name = host.type if host and host.type else own.type
    kind = catalog.vm_type(type_name)
    expected = kind.gpus if kind else own.gpus
    row = Row(
        node_set=key,
        name=worker.slurm_node,
        host=host.name if host else "",
        type=type_name,
        slurm=node.gpus if node else None,
        kubernetes=host.gpus if host else None,
        catalog=expected,
        state=_state(worker, node, seen),
    )
    finding = _finding(row, own, worker, host, node, seen)
    return replace(row, finding=finding)


def _state(worker: Worker, node: SlurmNode | None, seen: Seen) -> str:
    if worker.host is None:
        return "waits for a node"
    if seen.slurm is None:
        return "not known"
    if node is None:
        return "not registered"
    return node.trouble or "in service"


def _finding(row: Row, own: NodeSet, worker: Worker, host: Host | None, node: SlurmNode | None, seen: Seen) -> str:
    """What is wrong with a worker: the numbers of all three places, and what to do about the first cause."""
    name = row.name
    if worker.host is None and (own.lent or own.most is not None):
        return ""
    if worker.host is None:
        return f"{name} has found no node. `kubectl describe pod -n slurm` of it says what it waits for."
    if host is None:
        return f"{name} runs on {worker.host}, which Kubernetes does not have any more; it is made anew elsewhere."
    lost = row.kubernetes != row.catalog
    if seen.slurm is None and not lost:
        return ""
    trouble = node.trouble if node else "not registered" if seen.slurm is not None else "no answer"
    if not (trouble or lost or row.slurm != row.catalog or host.cordoned or row.type != own.type):
        return ""
    return f"{_numbers(row, trouble, host)}. {_advice(row, own, host, node)}"


def _numbers(row: Row, trouble: str, host: Host) -> str:
    in_slurm = f"{'none' if row.slurm is None else row.slurm} of {row.catalog} GPUs in Slurm"
    state = f" ({trouble})" if trouble else ""
    cordoned = " (cordoned)" if host.cordoned else ""
    return (
        f"{row.name} has {in_slurm}{state}, {row.kubernetes} in Kubernetes{cordoned}, "
        f"{row.catalog} in the catalogue ({row.type} {row.host})"
    )


def _advice(row: Row, own: NodeSet, host: Host, node: SlurmNode | None) -> str:
    if row.type != own.type:
        return f"The stack's settings say {own.type}: run `make refresh`, then `make preview`."
    if row.kubernetes != row.catalog:
        return f"The host does not offer what its type has: have {row.host} replaced, and leave it drained until then."
    if node is None:
        return f"Its slurmd has not come: `kubectl logs -n slurm {row.name} -c slurmd` says why."
    if row.slurm != row.catalog:
        return (
            f"Its slurmd finds other GPUs than Kubernetes counts, as after one has failed: look at {row.host} with "
            "`nvidia-smi -L` or `rocm-smi`, have it replaced, and leave it drained until then."
        )
    if host.cordoned:
        return f"When it is fit again: `kubectl uncordon {row.host}`; a drain of the operator goes with it."
    if "DRAIN" in node.states:
        return f"When its cause is gone: `scontrol update nodename={row.name} state=resume`."
    return f"`kubectl logs -n slurm {row.name} -c slurmd` and `scontrol show node {row.name}` say more."


def _idle(sets: Mapping[str, NodeSet], seen: Seen) -> Iterator[Row]:
    """Hosts of Slurm's pools on which no worker runs: spares, or, where each host should have one, a fault."""
    taken = {worker.host for worker in seen.workers}
    by_pool = {each.pool: key for key, each in sets.items() if each.pool and not each.lent}
    for host in sorted(seen.hosts, key=lambda each: each.name):
        if host.pool not in by_pool or host.name in taken:
            continue
        kind, key = catalog.vm_type(host.type), by_pool[host.pool]
        expected = kind.gpus if kind else None
        word = "spare" if sets[key].nodes is not None else "no worker"
        state = f"{word}, cordoned" if host.cordoned else word
        finding = ""
        if expected is not None and host.gpus != expected:
            finding = (
                f"{host.name} ({state}) has {host.gpus} of {expected} GPUs in Kubernetes, {expected} in the catalogue "
                f"({host.type}). Have it replaced before it is needed."
            )
        elif word == "no worker":
            finding = f"{host.name} in {key} has no worker. `kubectl get pods -n slurm` says whether one comes."
        yield Row(key, "", host.name, host.type, None, host.gpus, expected, state, finding)
