"""Where in the network a node is: the annotation that Slinky hands to its worker, written before that starts.

A worker of a cluster with a topology that does not say its place can't be scheduled with others, and one that names a
place which topology.yaml lacks is turned away. So every node of Slurm's pools has one, known or the default.
"""

from actor import facts
from actor.actions import Action, Annotate, Report
from actor.settings import Settings
from actor.state import KubeNode, Snapshot


def leaf(node: KubeNode, kind: str) -> str:
    """The leaf switch or NVLink domain that a node's labels tell; empty where they don't."""
    if kind == "block":
        return node.labels.get(facts.CLIQUE_LABEL, "")
    return node.labels.get(facts.POD_LABEL) or node.labels.get(facts.PARTITION_LABEL, "")


def plan(seen: Snapshot, settings: Settings) -> list[Action]:
    """Annotate the nodes that lack their place, or have another."""
    if settings.topology_kind == "none":
        return []
    actions: list[Action] = []
    for node in seen.nodes.values():
        if node.pool not in settings.pools:
            continue
        told = leaf(node, settings.topology_kind)
        known = told in settings.leaves or told == settings.default_leaf
        value = f"{settings.topology_name}:{told if known else settings.default_leaf}"
        if node.annotations.get(facts.TOPOLOGY) == value:
            continue
        actions.append(Annotate(node.name, facts.TOPOLOGY, value))
        if told and not known:
            text = (
                f"{node.name} is in {told}, which topology.yaml does not have, so Slurm counts it to "
                f"{settings.default_leaf}; add it to platform.slurm.topology.leaves"
            )
            actions.append(Report("topology", "UnknownLeaf", text, node.name))
    return actions
