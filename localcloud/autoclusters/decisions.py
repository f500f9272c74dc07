"""What to do next about an incident: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from localcloud.autoclusters.incidents import Delays, Incident, Phase
from localcloud.autoclusters.nodes import Pod
from localcloud.autoclusters.notices import Kind
from localcloud.operations import FAILED, IN_PROGRESS

Deed = Literal["nothing", "break", "show", "isolate", "evict", "replace"]
"""`break` makes the fault seen on the machine, `show` has the node's condition say so."""


@dataclass(frozen=True)
class View:
    """What is seen when a decision is made.

    `node`: whether the Node is there; `action`: None where AutoClusters doesn't cover the incident; `pods`: those that
    a drain moves; `state` and `message` of the operation that replaces, empty where there is none; `room`: whether a VM
    could start.
    """

    node: bool = True
    action: str | None = "REPLACE_NODE"
    pods: Sequence[Pod] = ()
    state: str = ""
    message: str = ""
    room: bool = True


@dataclass(frozen=True)
class Decision:
    """Do something, then enter a phase, if one is named, and tell of it, if that is named."""

    deed: Deed = "nothing"
    phase: Phase | None = None
    tell: Kind | None = None
    message: str = ""


WAIT = Decision()


def decide(incident: Incident, seen: View, delays: Delays, now: float) -> Decision:
    """The next step; `now` in seconds of the machine's clock. Repeating it does no harm."""
    if incident.phase in ("injected", "failed", "detected", "isolated") and not seen.node:
        return Decision(phase="gone")
    waited = now - incident.since
    match incident.phase:
        case "injected":
            return Decision("break", "failed")
        case "failed":
            if waited < delays.detect:
                return WAIT
            # The problem detector knows nothing of what AutoClusters makes of it.
            if seen.action is None:
                return Decision("show", "uncovered")
            return Decision("show", "detected", "issue_detected")
        case "detected":
            if seen.action != "REPLACE_NODE":
                return Decision(phase="off")
            return Decision("isolate", "isolated", "remediation_started")
        case "isolated":
            return _isolated(seen, waited, delays)
        case "replacing":
            return _replacing(seen)
        case "stalled":
            return Decision("replace") if seen.room else WAIT
        case _:
            return WAIT


def _isolated(seen: View, waited: float, delays: Delays) -> Decision:
    if stays := [pod.name for pod in seen.pods if pod.opted_out]:
        text = f"The node is not replaced: {', '.join(stays)} has the label that forbids it."
        return Decision(phase="opted-out", tell="remediation_skipped", message=text)
    if waited < min(delays.cordon, delays.grace):
        return WAIT
    if seen.pods and waited < delays.grace:
        return Decision("evict")
    return Decision("replace")


def _replacing(seen: View) -> Decision:
    if seen.state == IN_PROGRESS:
        return WAIT
    if seen.state == FAILED:
        text = f"The node could not be replaced, and will be once that is possible: {seen.message}"
        return Decision(phase="stalled", tell="remediation_failed", message=text)
    return Decision(phase="replaced", tell="remediation_succeeded")
