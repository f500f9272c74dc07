"""From what the systems say to observations: pure functions. Each answers only what stages and verdict need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from drill.job import FILLER
from drill.losses import parse
from drill.observations import Observation

Json = Mapping[str, Any]
REMEDIATION = "crusoe.ai/remediation"


def part(item: Json, *keys: str) -> Json:
    """A mapping within another; empty where it is not there."""
    for key in keys:
        item = cast("Json", item.get(key) or {})
    return item


def items(item: Json, *keys: str) -> Sequence[Json]:
    """A list of mappings within a mapping; empty where it is not there."""
    return cast("Sequence[Json]", part(item, *keys[:-1]).get(keys[-1]) or ())


def node(item: Json, at: float) -> Observation:
    """A Node of Kubernetes."""
    given: dict[str, object] = {**part(item, "metadata", "labels"), **part(item, "metadata", "annotations")}
    given |= {str(each["key"]): each.get("value", "") for each in items(item, "spec", "taints")}
    marks = sorted(f"{key}={value}" for key, value in given.items() if key.startswith(REMEDIATION))
    what = {
        "name": item["metadata"]["name"],
        "cordoned": bool(part(item, "spec").get("unschedulable")),
        "mark": marks[0] if marks else "",
        "conditions": [*filter(None, map(_held, items(item, "status", "conditions")))],
    }
    return Observation(at, "kubernetes", "node", what)


def _held(condition: Json) -> str:
    return str(condition["type"]) if condition.get("status") == "True" else ""


def pod(item: Json, at: float, *, gone: bool = False) -> Observation:
    """A pod of a worker; `gone` once Kubernetes has forgotten it."""
    what = {
        "name": item["metadata"]["name"],
        "node": part(item, "spec").get("nodeName", ""),
        "ready": not gone and "Ready" in map(_held, items(item, "status", "conditions")),
        "ending": bool(item["metadata"].get("deletionTimestamp")),
        "gone": gone,
    }
    return Observation(at, "kubernetes", "pod", what)


def event(item: Json, at: float) -> Observation:
    """An event of Kubernetes."""
    what = {
        "name": part(item, "involvedObject").get("name", ""),
        "reason": item.get("reason") or "",
        "component": part(item, "source").get("component") or item.get("reportingComponent") or "",
        "message": item.get("message") or "",
    }
    return Observation(at, "kubernetes", "event", what)


def operation(item: Json, at: float) -> Observation:
    """A repair of the API's history. The record counts whole seconds, so the moment is that of the look."""
    metadata = part(item, "metadata")
    what = {
        "id": item.get("operation_id", ""),
        "state": item.get("state", ""),
        "vm": metadata.get("vm_id", ""),
        "type": metadata.get("operation_type", ""),
        "startedAt": item.get("started_at", ""),
        "completedAt": item.get("completed_at", ""),
    }
    return Observation(at, "api", "operation", what)


def slurm_line(line: str) -> Observation | None:
    """A line of the look at Slurm: its moment, then what `scontrol --oneliner` says of a job or a node."""
    moment, _, text = line.strip().partition(" ")
    values = dict(word.split("=", 1) for word in text.split(" ") if "=" in word)
    try:
        at = float(moment)
        if "JobId" in values:
            what = {
                "job": values["JobId"],
                "state": values["JobState"],
                "reason": values.get("Reason", ""),
                "restarts": int(values.get("Restarts", 0)),
                "nodes": values.get("NodeList", ""),
                "batch": values.get("BatchHost", ""),
                "eligible": seconds(values.get("EligibleTime", "")),
            }
            return Observation(at, "slurm", "job", what)
        if text.startswith("Other "):
            return _other(at, *text.split()[1:])
        if "NodeName" in values:
            reason = text.partition(" Reason=")[2].partition(" [")[0]
            what = {"name": values["NodeName"], "state": values["State"], "reason": reason}
            return Observation(at, "slurm", "node", what)
    except (ValueError, KeyError, TypeError):
        return None
    return None


def _other(at: float, name: str, job: str, state: str, restarts: str) -> Observation | None:
    """Another job of the drill: one that waits for nodes, seen once it runs, or the one beside it."""
    if name == FILLER:
        return Observation(at, "slurm", "filler", {"job": job}) if state == "RUNNING" else None
    # Every look counts: that it still runs after the others' repair is what has to be seen.
    return Observation(at, "slurm", "bystander", {"job": job, "state": state, "restarts": int(restarts)})


def seconds(moment: str) -> float:
    """A time as Slurm writes it, in this machine's zone, as seconds since 1970; 0 for none."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0


def step_line(line: str) -> Observation | None:
    """A line of the run folder's `steps.jsonl`."""
    return next(
        (
            Observation(each.at, "job", "step", {"step": each.step, "loss": each.loss, "attempt": each.attempt})
            for each in parse(line)
        ),
        None,
    )


def event_line(line: str) -> Observation | None:
    """A line of the run folder's `events.jsonl`."""
    try:
        row = json.loads(line)
        return Observation(float(row["time"]), "job", "event", {**row, "event": str(row["event"])})
    except (ValueError, KeyError, TypeError):
        return None
