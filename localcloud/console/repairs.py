"""A repair as steps in time: what AutoClusters did, what others showed meanwhile, and what is still to come. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from localcloud.autoclusters.incidents import Incident, Phase
from localcloud.console.sights import News

Owner = Literal["machine", "AutoClusters", "Kubernetes", "Slurm"]
Progress = Literal["done", "now", "next"]

_OWNERS: Mapping[str, Owner] = {"kubernetes": "Kubernetes", "slurm": "Slurm"}
_TEXTS: Mapping[Phase, tuple[Owner, str]] = {
    "injected": ("machine", "The fault was asked for."),
    "failed": ("machine", "The fault is there."),
    "detected": ("AutoClusters", "The fault is seen, and told."),
    "isolated": ("AutoClusters", "The node takes no more pods; those on it are given time, then moved."),
    "replacing": ("AutoClusters", "The machine is being replaced."),
    "stalled": ("AutoClusters", "There is no machine to replace it with; it is replaced once there is."),
    "replaced": ("AutoClusters", "The machine is replaced."),
    "off": ("AutoClusters", "Nothing is done: the issue's action is OFF."),
    "opted-out": ("AutoClusters", "Nothing is done: a pod's label forbids it."),
    "uncovered": ("AutoClusters", "Nothing is done: AutoClusters doesn't cover this."),
    "gone": ("AutoClusters", "The node is gone."),
}
_REPLACED: Sequence[Phase] = ("injected", "failed", "detected", "isolated", "replacing", "replaced")
_OFF: Sequence[Phase] = ("injected", "failed", "detected", "off")
_UNCOVERED: Sequence[Phase] = ("injected", "failed", "uncovered")
AFTERWARDS_SECONDS = 300.0
"""How long after its end what Slurm shows still belongs to a repair: jobs wait before they start again."""


@dataclass(frozen=True)
class Step:
    """One step. `after` is seconds since the fault; None for one that is still to come."""

    progress: Progress
    owner: Owner
    text: str
    after: float | None = None


@dataclass(frozen=True)
class Repair:
    """A fault and its repair, with the steps in order."""

    id: str
    node: str
    issue: str
    gpu: int
    phase: Phase
    open: bool
    began: float
    took: float
    steps: Sequence[Step]


def repair(incident: Incident, action: str | None, news: Sequence[News], now: float) -> Repair:
    """The repair of an incident, with what of the news of its cluster happened in its time.

    `action` is what AutoClusters does about the issue; None where it doesn't cover it.
    """
    began = incident.history[0][1]
    last = now if incident.open else incident.since
    until = last if incident.open else last + AFTERWARDS_SECONDS
    own: list[tuple[float, Owner, str]] = [(at, *_TEXTS[phase]) for at, phase in _known(incident)]
    others: list[tuple[float, Owner, str]] = [
        (each.at, _OWNERS[each.source], each.text)
        for each in news
        if each.cluster_id == incident.cluster_id and began <= each.at <= until
    ]
    ordered = sorted([*own, *others], key=lambda each: each[0])
    steps = [Step("done", owner, text, at - began) for at, owner, text in ordered]
    if incident.open:
        owner, text = _TEXTS[incident.phase]
        at = next(index for index in reversed(range(len(ordered))) if ordered[index][2] == text)
        steps[at] = Step("now", owner, text, steps[at].after)
        steps += _to_come(incident.phase, action)
    return Repair(
        incident.id,
        incident.node,
        incident.issue,
        incident.gpu,
        incident.phase,
        incident.open,
        began,
        last - began,
        tuple(steps),
    )


def _known(incident: Incident) -> list[tuple[float, Phase]]:
    return [(at, phase) for name, at in incident.history for phase in _TEXTS if phase == name]


def _to_come(phase: Phase, action: str | None) -> list[Step]:
    way = _UNCOVERED if action is None else _REPLACED if action == "REPLACE_NODE" else _OFF
    if phase not in way:
        # Stalled, or its action was changed while it went on.
        way = ("stalled", "replacing", "replaced") if phase == "stalled" else _REPLACED
    return [Step("next", *_TEXTS[each]) for each in way[way.index(phase) + 1 :]]
