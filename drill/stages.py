"""The stages of a failure and its repair, found in what was observed: pure functions.

Each stage is read back from the system that did it. A stage has the moment at which that system first showed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from drill.observations import Observation, Source

Owner = Literal["job", "delay", "cloud", "platform", "slurm", "pytorch"]
"""Whose time it is until a stage is reached: the job's own work, a delay that is a setting, Crusoe's AutoClusters and
Kubernetes, this project, Slurm, or PyTorch and the job's start."""


@dataclass(frozen=True)
class Story:
    """What was observed, in order, and what it is about.

    Attributes:
        node, worker: the machine that failed, by its name in Kubernetes and in Slurm.
        fault_at: when it was made to fail, in seconds since 1970; 0 where nothing was.
    """

    observations: Sequence[Observation]
    node: str = ""
    worker: str = ""
    fault_at: float = 0.0

    def some(self, source: Source, kind: str, since: float = 0.0) -> Iterator[Observation]:
        """Observations of a kind, from a moment on."""
        return (each for each in self.observations if (each.source, each.kind) == (source, kind) and each.at >= since)


def story(observations: Sequence[Observation]) -> Story:
    """The story of what was observed; the first fault is the one that it is about."""
    ordered = sorted(observations, key=lambda each: each.at)
    fault = next((each for each in ordered if (each.source, each.kind) == ("drill", "fault")), None)
    if fault is None:
        return Story(ordered)
    return Story(ordered, fault.what["node"], fault.what["worker"], fault.at)


Find = Callable[[Story], Iterator[Observation]]


@dataclass(frozen=True)
class Stage:
    """One step of the sequence: who shows it, whose time it is until then, and how it is found."""

    key: str
    title: str
    source: Source
    owner: Owner
    find: Find


def _deed(kind: str) -> Find:
    return lambda story: story.some("drill", kind)


def _notice(kind: str) -> Find:
    def find(story: Story) -> Iterator[Observation]:
        wanted = f"autoclusters.{kind}"
        found = story.some("webhook", "notice", story.fault_at)
        return (each for each in found if each.what.get("type") == wanted and each.what.get("node") == story.node)

    return find


def _isolated(story: Story) -> Iterator[Observation]:
    nodes = story.some("kubernetes", "node", story.fault_at)
    return (each for each in nodes if _is(each, story.node) and each.what["cordoned"] and each.what["mark"])


def _answered(story: Story) -> Iterator[Observation]:
    events = story.some("kubernetes", "event", story.fault_at)
    reasons = ("NodeFault", "NodeFaultOptedOut")
    return (
        each
        for each in events
        if each.what["component"] == "slurm-actor" and each.what["reason"] in reasons and _is(each, story.node)
    )


def _drained(story: Story) -> Iterator[Observation]:
    nodes = story.some("slurm", "node", story.fault_at)
    return (each for each in nodes if _is(each, story.worker) and "DRAIN" in each.what["state"])


def _requeued(story: Story) -> Iterator[Observation]:
    before = max((each.what["restarts"] for each in story.some("slurm", "job") if each.at < story.fault_at), default=0)
    return (each for each in story.some("slurm", "job", story.fault_at) if each.what["restarts"] > before)


def _pending(story: Story) -> Iterator[Observation]:
    return (each for each in _requeued(story) if each.what["state"] == "PENDING")


def _evicted(story: Story) -> Iterator[Observation]:
    pods = story.some("kubernetes", "pod", story.fault_at)
    return (each for each in pods if _is(each, story.worker) and each.what["node"] == story.node and each.what["gone"])


def _ready(story: Story) -> Iterator[Observation]:
    pods = story.some("kubernetes", "pod", story.fault_at)
    return (
        each
        for each in pods
        if _is(each, story.worker) and each.what["node"] not in ("", story.node) and each.what["ready"]
    )


def _operation(state: str) -> Find:
    def find(story: Story) -> Iterator[Observation]:
        found = story.some("api", "operation", story.fault_at)
        return (each for each in found if each.what["state"] == state)

    return find


def _returned(story: Story) -> Iterator[Observation]:
    since = next((each.at for each in _ready(story)), None)
    if since is None:
        return
    nodes = [each for each in story.some("slurm", "node", story.fault_at) if _is(each, story.worker)]
    # What does not change is seen once: Slurm may have had the node a moment before its pod was called ready.
    last = max((each for each in nodes if each.at < since), key=lambda each: each.at, default=None)
    if last is not None and _takes_jobs(last):
        yield replace(last, at=since)
    yield from (each for each in nodes if each.at >= since and _takes_jobs(each))


def _takes_jobs(node: Observation) -> bool:
    state = node.what["state"]
    return state.split("+")[0] in ("IDLE", "MIXED", "ALLOCATED") and "DRAIN" not in state


def _started(story: Story) -> Iterator[Observation]:
    return (each for each in _requeued(story) if each.what["state"] == "RUNNING")


def _resumed(story: Story) -> Iterator[Observation]:
    return (each for each in story.some("job", "event", story.fault_at) if each.what["event"] == "resumed")


def _stepping(story: Story) -> Iterator[Observation]:
    before = max((each.what["attempt"] for each in story.some("job", "step") if each.at < story.fault_at), default=0)
    return (each for each in story.some("job", "step", story.fault_at) if each.what["attempt"] > before)


def _completed(story: Story) -> Iterator[Observation]:
    return (each for each in story.some("slurm", "job") if each.what["state"] == "COMPLETED")


def _lost(story: Story) -> Iterator[Observation]:
    said = ("crashed", "ranks-failed")
    return (each for each in story.some("job", "event", story.fault_at) if each.what["event"] in said)


def _unsaved(story: Story) -> Iterator[Observation]:
    return (each for each in story.some("job", "event", story.fault_at) if each.what["event"] == "save-failed")


def _saved(story: Story) -> Iterator[Observation]:
    since = next((each.at for each in _unsaved(story)), math.inf)
    return (each for each in story.some("job", "event", since) if each.what["event"] == "save-published")


def _limited(story: Story) -> Iterator[Observation]:
    ended = (each for each in story.some("job", "event", story.fault_at) if each.what["event"] == "ended")
    return (each for each in ended if each.what["told"] == "limit")


def _overtaken(story: Story) -> Iterator[Observation]:
    """A job that began to run between the end of the drilled one and its new start."""
    since = next((each.at for each in _pending(story)), None)
    if since is None:
        return iter(())
    until = next((each.at for each in _started(story)), math.inf)
    before = {each.what["job"] for each in story.some("slurm", "filler") if each.at < since}
    found = story.some("slurm", "filler", since)
    return (each for each in found if each.at < until and each.what["job"] not in before)


def _cancelled(story: Story) -> Iterator[Observation]:
    return (each for each in story.some("slurm", "job", story.fault_at) if each.what["state"] == "CANCELLED")


def _replaced_twice(story: Story) -> Iterator[Observation]:
    """The second repair; where two machines failed there are two."""
    seen: set[str] = set()
    for each in story.some("api", "operation", story.fault_at):
        seen.add(each.what["id"])
        if len(seen) > 1:
            yield each


def _beside(story: Story) -> Iterator[Observation]:
    since = next((each.at for each in _started(story)), math.inf)
    return (each for each in _bystander(story) if each.at >= since and _untouched(each))


def _disturbed(story: Story) -> Iterator[Observation]:
    return (each for each in _bystander(story) if not _untouched(each))


def _bystander(story: Story) -> Iterator[Observation]:
    """What became of the job beside it since the failure; Slurm still lists those of earlier drills."""
    seen = [each for each in story.some("slurm", "bystander") if _untouched(each) and each.at < story.fault_at]
    own = {each.what["job"] for each in seen}
    return (each for each in story.some("slurm", "bystander", story.fault_at) if each.what["job"] in own)


def _untouched(each: Observation) -> bool:
    return each.what["state"] == "RUNNING" and not each.what["restarts"]


def _is(each: Observation, name: str) -> bool:
    return bool(name) and each.what["name"] == name


STAGES: Sequence[Stage] = (
    Stage("refused", "the settings were refused", "drill", "platform", _deed("refused")),
    Stage("submitted", "sbatch took the job", "drill", "job", _deed("submitted")),
    Stage("training", "the first step was taken", "job", "job", lambda story: story.some("job", "step")),
    Stage("fault", "the machine failed", "drill", "job", _deed("fault")),
    Stage("lost", "a rank had crashed", "job", "pytorch", _lost),
    Stage("unsaved", "a save had failed", "job", "job", _unsaved),
    Stage("saved", "a later save was whole", "job", "job", _saved),
    Stage("limited", "the job had ended before its time limit did it", "job", "slurm", _limited),
    Stage("told", "AutoClusters told of the fault", "webhook", "delay", _notice("issue_detected")),
    Stage("isolated", "AutoClusters marked and cordoned the node", "kubernetes", "cloud", _isolated),
    Stage("drained", "the node was drained in Slurm", "slurm", "platform", _drained),
    Stage("answered", "the actor answered the fault", "kubernetes", "platform", _answered),
    Stage("requeued", "the job was back in the queue", "slurm", "slurm", _pending),
    Stage("evicted", "the node's worker was gone", "kubernetes", "cloud", _evicted),
    Stage("failed", "the repair failed", "api", "cloud", _operation("FAILED")),
    Stage("stalled", "AutoClusters told that the repair failed", "webhook", "cloud", _notice("remediation_failed")),
    Stage("skipped", "AutoClusters told that it replaces nothing", "webhook", "cloud", _notice("remediation_skipped")),
    Stage("replaced", "the history has the replacement", "api", "cloud", _operation("SUCCEEDED")),
    Stage("replaced-twice", "a second repair began", "api", "cloud", _replaced_twice),
    Stage("ready", "the worker ran on another machine", "kubernetes", "cloud", _ready),
    Stage("returned", "Slurm had the node back", "slurm", "slurm", _returned),
    Stage("started", "Slurm started the job again", "slurm", "slurm", _started),
    Stage("overtaken", "a job that came later started before it", "slurm", "slurm", _overtaken),
    Stage("beside", "the job beside it ran on", "slurm", "slurm", _beside),
    Stage("disturbed", "the job beside it was disturbed", "slurm", "slurm", _disturbed),
    Stage("resumed", "the job had loaded its checkpoint", "job", "pytorch", _resumed),
    Stage("stepping", "the first step after the failure was taken", "job", "pytorch", _stepping),
    Stage("cancelled", "the job was cancelled", "slurm", "job", _cancelled),
    Stage("completed", "the job had completed", "slurm", "job", _completed),
)
"""All stages, in about the order in which they come."""

BY_KEY: Mapping[str, Stage] = {stage.key: stage for stage in STAGES}


@dataclass(frozen=True)
class Moment:
    """A stage that was reached: when, and what showed it."""

    stage: Stage
    at: float
    shown: Mapping[str, Any] = field(default_factory=dict[str, Any])


def moments(told: Story) -> dict[str, Moment]:
    """The stages that were reached, by key, each at its first sight."""
    found: dict[str, Moment] = {}
    for stage in STAGES:
        first = next(stage.find(told), None)
        if first is not None:
            found[stage.key] = Moment(stage, first.at, first.what)
    return found


PATH = ("fault", "told", "isolated", "answered", "requeued", "ready", "started", "resumed", "stepping")
"""What the job waits for from the failure on, one after the other; `eligible` comes from Slurm's own record."""


def shares(reached: Mapping[str, Moment], eligible_at: float = 0.0) -> dict[Owner, float]:
    """Seconds from the failure to the first step after it, by whose they are.

    The moments are put in order, and the time before each belongs to the one who was waited for. `eligible_at` is when
    Slurm lets a requeued job start at the earliest (`cred_expire`, back-off), which is a setting.
    """
    if "fault" not in reached or "stepping" not in reached:
        return {}
    begin, end = reached["fault"].at, reached["stepping"].at
    points: list[tuple[float, Owner]] = [
        (reached[key].at, reached[key].stage.owner) for key in PATH[1:] if key in reached
    ]
    if eligible_at:
        points.append((eligible_at, "delay"))
    found: dict[Owner, float] = {}
    before = begin
    for at, owner in sorted(points):
        at = min(at, end)
        if at > before:
            found[owner] = found.get(owner, 0.0) + at - before
            before = at
    return found
