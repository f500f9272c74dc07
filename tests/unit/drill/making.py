"""Observations of a drill as they are made in tests."""

from __future__ import annotations

from typing import Any

from drill.losses import Step
from drill.observations import Observation, Source

NODE, OTHER, WORKER = "np-1-0", "np-1-2", "train-1"


def seen(at: float, source: Source, kind: str, /, **what: Any) -> Observation:
    return Observation(at, source, kind, what)


def job(at: float, state: str, restarts: int = 0, **more: Any) -> Observation:
    values = {"job": "7", "state": state, "restarts": restarts, "nodes": "", "batch": "", "eligible": 0.0, **more}
    return seen(at, "slurm", "job", **values)


def step(at: float, number: int, attempt: int = 0) -> Observation:
    return seen(at, "job", "step", step=number, loss=(1.0 / (number + 1)).hex(), attempt=attempt)


def whole() -> list[Observation]:
    """A default drill as it should be; the failure comes at second 100."""
    return [
        seen(80, "drill", "submitted", job="7"),
        job(82, "RUNNING"),
        seen(81, "kubernetes", "node", name=NODE, cordoned=False, mark="", conditions=["Ready"]),
        seen(81, "kubernetes", "pod", name=WORKER, node=NODE, ready=True, ending=False, gone=False),
        step(90, 0),
        step(99, 50),
        seen(100, "drill", "fault", node=NODE, worker=WORKER, fault="XID 79"),
        seen(100.4, "job", "event", event="ranks-failed"),
        seen(102, "webhook", "notice", type="autoclusters.issue_detected", node=NODE),
        seen(102.3, "kubernetes", "node", name=NODE, cordoned=True, mark="crusoe.ai/remediation=XID_79", conditions=[]),
        seen(103.1, "slurm", "node", name=WORKER, state="MIXED+DRAIN", reason="slurm-operator: x"),
        seen(103.3, "kubernetes", "event", name=NODE, reason="NodeFault", component="slurm-actor", message=""),
        job(104, "PENDING", 1, eligible=109.0),
        seen(106, "kubernetes", "pod", name=WORKER, node=NODE, ready=False, ending=True, gone=True),
        seen(106.5, "api", "operation", id="o", state="IN_PROGRESS", vm="v", type="replace_node"),
        seen(107, "api", "operation", id="o", state="SUCCEEDED", vm="v", type="replace_node"),
        seen(108.5, "kubernetes", "pod", name=WORKER, node=OTHER, ready=True, ending=False, gone=False),
        seen(108.9, "slurm", "node", name=WORKER, state="IDLE", reason=""),
        job(110, "RUNNING", 1, eligible=109.0),
        seen(115, "job", "event", event="resumed", step=40),
        step(116, 40, 1),
        step(125, 119, 1),
        job(126, "COMPLETED", 1),
    ]


def steps(first: int, last: int, attempt: int = 0, off: float = 0.0) -> list[Step]:
    """Steps of an attempt with the losses that a good run has, or others."""
    return [Step(number, (1.0 / (number + 1) + off).hex(), attempt, float(number)) for number in range(first, last + 1)]
