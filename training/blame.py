"""Which nodes a crash is blamed on, and how long a job stays away from them: pure functions.

Only what a crashed job can see counts here: a rank that died by a signal, or by an error that is no consequence of
another's end. Proven faults are drained for everybody by the health checks; this is one job's own suspicion.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST = 2
"""More suspects than that at once mean the program, and nobody is blamed."""

SECONDS = 24 * 3600.0
"""How long a suspicion lasts."""

_ENDED_BY_OTHERS = frozenset({-signal.SIGTERM, -signal.SIGINT})
# Words of errors with which a collective tells that another rank is gone (gloo, NCCL, the store).
_CONSEQUENCES = ("connection", "peer", "timed out", "timeout", "gloo", "nccl", "broken pipe", "store", "distbackend")


@dataclass(frozen=True)
class Suspicion:
    """A node that a job stays away from until `until` (s since 1970), while it is the machine `instance`.

    An `instance` of "" is one that nobody knows.
    """

    node: str
    until: float
    instance: str = ""


def suspects(events: Iterable[Mapping[str, Any]], attempt: int, nodes: int) -> list[str]:
    """The nodes to blame for the end of an attempt on so many nodes; none where it can't be told.

    Who died by a signal (out of memory, a bus error, a kill) comes before who reports an error of its own. An error on
    all nodes is the program's.
    """
    own = [event for event in events if event["attempt"] == attempt]
    killed = {
        event["node"]
        for event in own
        if event["event"] == "ranks-failed"
        and any(failure["code"] < 0 and failure["code"] not in _ENDED_BY_OTHERS for failure in event["failures"])
    }
    failed = {
        event["node"]
        for event in own
        if event["event"] == "crashed" and not any(word in event["error"].lower() for word in _CONSEQUENCES)
    }
    found = sorted(killed or failed)
    return found if len(found) <= MOST and len(found) < nodes else []


def kept(
    before: Sequence[Suspicion],
    found: Sequence[str],
    instances: Mapping[str, str],
    now: float,
) -> list[Suspicion]:
    """The suspicions from now on, newest first, at most MOST.

    One ends when its time is over, or when another machine is behind the node's name. `instances` are the machines' ids
    by node, as far as they are known.
    """
    new = [Suspicion(node, now + SECONDS, instances.get(node, "")) for node in found]
    lasting = [
        each
        for each in before
        if each.node not in found and each.until > now and instances.get(each.node, each.instance) == each.instance
    ]
    return [*new, *lasting][:MOST]


def affordable(suspicions: Sequence[Suspicion], usable: Collection[str], needed: int) -> list[Suspicion]:
    """As many of them, newest first, as leave the job its nodes: a suspicion is no reason never to start again."""
    taken: list[Suspicion] = []
    for each in suspicions:
        left = set(usable) - {other.node for other in taken} - {each.node}
        if len(left) >= needed:
            taken.append(each)
    return taken


def users_own(excluded: Collection[str], before: Sequence[Suspicion]) -> set[str]:
    """What the user excludes: the nodes of the job's ExcNodeList that weren't suspects."""
    return set(excluded) - {each.node for each in before}
