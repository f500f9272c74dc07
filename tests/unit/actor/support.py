"""A small cluster as the actor sees it: two-node jobs on h100 nodes of the pool `train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from actor import facts
from actor.actions import Action
from actor.settings import Settings
from actor.state import Job, KubeNode, Mark, Reservation, SlurmNode, Snapshot, Worker

NOW = 1_800_000_000
SETTINGS = Settings(conditions=("ReadonlyFilesystem",), pools=("test-train",), cred_expire=30)
XID = Mark("crusoe.ai/remediation=XID_79", "crusoe.ai/remediation=XID_79")
READ_ONLY = Mark("ReadonlyFilesystem@2026-11-29T10:00:00Z", "ReadonlyFilesystem: / is read-only")


def kube(number: int, **changes: Any) -> KubeNode:
    labels = {facts.INSTANCE_LABEL: f"vm-{number}", facts.POOL_LABEL: "test-train"}
    return replace(KubeNode(f"host-{number}", f"vm-{number}", "test-train", labels=labels), **changes)


def worker(number: int, **changes: Any) -> Worker:
    one = Worker(f"train-{number}", f"train-{number}", f"host-{number}", started=NOW - 9000, ready=NOW - 8900)
    return replace(one, **changes)


def slurm_node(number: int, *states: str, **changes: Any) -> SlurmNode:
    one = SlurmNode(
        f"train-{number}",
        frozenset(states or ("IDLE",)),
        extra=f'{{"instance": "vm-{number}"}}',
        partitions=frozenset({"all"}),
        features=frozenset({"train"}),
        gres="gpu:h100:8",
    )
    return replace(one, **changes)


def job(number: int, *nodes: int, **changes: Any) -> Job:
    names = tuple(f"train-{each}" for each in nodes)
    states = frozenset({"RUNNING" if nodes else "PENDING"})
    one = Job(number, str(number), states, names, len(nodes) or 1, user="ada", account="vision", partition="all")
    return replace(one, **changes)


def cluster(
    size: int = 4,
    *,
    nodes: Sequence[KubeNode] = (),
    slurm: Sequence[SlurmNode] = (),
    workers: Sequence[Worker] = (),
    jobs: Sequence[Job] = (),
    reservations: Sequence[Reservation] = (),
    now: int = NOW,
) -> Snapshot:
    """`size` healthy nodes, of which some are as given."""
    busy = {name for each in jobs if each.running for name in each.nodes}
    healthy = [slurm_node(each, "ALLOCATED" if f"train-{each}" in busy else "IDLE") for each in range(size)]
    return Snapshot(
        now,
        {each.name: each for each in (*(kube(number) for number in range(size)), *nodes)},
        list({each.name: each for each in (*(worker(number) for number in range(size)), *workers)}.values()),
        {each.name: each for each in (*healthy, *slurm)},
        jobs,
        {each.name: each for each in reservations},
    )


def names(actions: Sequence[Action]) -> list[str]:
    return [type(each).__name__ for each in actions]
