"""Who drained a node, and which drains end when the node has been replaced.

A replaced node comes back under its old name in Slurm, with the old drain. Which machine is behind a name is kept in
the node's Extra. On another one, drains that machines made of the old one are lifted; those of people never are, and
neither are those of the new machine itself, such as of a replacement that brings too few GPUs.
"""

import json
from collections.abc import Collection, Sequence
from typing import Literal

from actor import facts
from actor.actions import Action, Remember, Report, Undrain
from actor.read import remembered
from actor.state import KubeNode, SlurmNode, Snapshot, Worker

Owner = Literal["human", "operator", "health", "actor", "slurm"]

SETTLE_SECONDS = 30
"""How long a replaced node is ready before its drain is lifted: its own health checks have the first word."""

_OWNERS: dict[str, Owner] = {
    facts.OPERATOR_PREFIX: "operator",
    facts.HEALTH_PREFIX: "health",
    facts.ACTOR_PREFIX: "actor",
}


def owner(reason: str) -> Owner:
    """Whose drain it is, by how its reason begins. Whatever nobody else writes, a person wrote."""
    for prefix, found in _OWNERS.items():
        if reason.startswith(prefix.rstrip()):
            return found
    return "slurm" if reason.startswith(facts.SLURM_REASONS) else "human"


def plan(seen: Snapshot, broken: Collection[str]) -> list[list[Action]]:
    """Remember the machines behind the names, and lift what held for those that are gone.

    `broken` are Kubernetes nodes with a fault.
    """
    lists: list[list[Action]] = []
    for worker in seen.workers:
        node, one = seen.nodes.get(worker.node), seen.slurm.get(worker.slurm_name)
        if node and node.instance and one and worker.ready is not None and one.reachable:
            lists.append(list(_worker(seen.now, worker, node, one, broken=node.name in broken)))
    return lists


def _worker(now: int, worker: Worker, node: KubeNode, one: SlurmNode, *, broken: bool) -> Sequence[Action]:
    kept = remembered(one.extra)
    if kept is None or kept.get("instance") == node.instance:
        return ()
    noted = Remember(one.name, json.dumps({**kept, "instance": node.instance}, sort_keys=True))
    if "instance" not in kept or not one.draining:
        return (noted,)
    who = owner(one.reason)
    if who == "human":
        text = f"{one.name} is another machine now; a person drained it, so it stays drained: {one.reason}"
        return noted, Report("kept", "DrainKept", text, node.name, warning=False)
    if one.reason_at >= worker.started:
        text = f"{one.name} is another machine, which is not fit either: {one.reason}"
        return noted, Report("unfit", "ReplacementUnfit", text, node.name)
    if broken or node.cordoned or now - (worker.ready or now) < SETTLE_SECONDS:
        return ()
    text = f"{one.name} is another machine now and takes jobs again; lifted: {one.reason}"
    return Undrain(one.name), noted, Report("returned", "NodeReturned", text, node.name, warning=False)
