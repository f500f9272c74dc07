"""Plain data for the console's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from localcloud.autoclusters.incidents import Incident
from localcloud.console.gathering import Cluster, Issue, Picture, Pool, Vm
from localcloud.console.sights import ClusterSight, JobSight, NodeSight, PodSight

NOW = 1_000_000.0
RUNNING = "STATE_RUNNING"


def vm(number: int = 0, **changes: Any) -> Vm:
    return replace(Vm(f"vm-{number}", f"np-1-{number}", RUNNING), **changes)


def worker(number: int = 0, **changes: Any) -> PodSight:
    pod = PodSight("slurm", f"train-{number}", f"np-1-{number}", 8, worker=f"train-{number}", part="floor")
    return replace(pod, **changes)


def job(number: int, state: str = "RUNNING", **changes: Any) -> JobSight:
    return replace(JobSight(str(number), f"job-{number}", "ada", state, "train", gpus=8), **changes)


def sight(count: int = 2, **changes: Any) -> ClusterSight:
    nodes = {f"np-1-{number}": NodeSight(f"np-1-{number}") for number in range(count)}
    return replace(ClusterSight(NOW, nodes), **changes)


def incident(phase: Any = "isolated", number: int = 0, **changes: Any) -> Incident:
    """A fault of 20 seconds ago, whose phases began three seconds apart."""
    way = ("injected", "failed", "detected", "isolated", "replacing", "replaced")
    passed = way[: way.index(phase) + 1] if phase in way else (*way[:3], phase)
    history = tuple((each, NOW - 20 + 3 * step) for step, each in enumerate(passed))
    one = Incident(f"i-{number}", "p", "c", "pool", f"vm-{number}", f"np-1-{number}", 79, 3, phase, history[-1][1])
    return replace(one, history=history, **changes)


def picture(count: int = 2, seen: ClusterSight | None = None, **changes: Any) -> Picture:
    pool = Pool("pool", "train", "h100-80gb-sxm-ib.8x", "us-east1-a", 8, count, tuple(map(vm, range(count))))
    issues = (Issue("XID_48", "OFF", chosen=False), Issue("XID_79", "REPLACE_NODE", chosen=True))
    cluster = Cluster("c", "prod", "1.33.4-cmk.43", RUNNING, (pool,), issues)
    return replace(Picture(NOW, (cluster,), {"c": seen or sight(count)}), **changes)
