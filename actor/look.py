"""One look: everything that is to be done about what is seen. A pure function."""

from actor import faults, launches, ownership, places, topology
from actor.actions import Action, Requeue
from actor.settings import Settings
from actor.state import Snapshot


def look(seen: Snapshot, memory: launches.Memory, settings: Settings) -> tuple[list[list[Action]], launches.Memory]:
    """Lists of actions, each of which ends with the first step that fails, and the memory for the next look."""
    memory = launches.remember(memory, seen, settings)
    broken = {node.name for node in seen.nodes.values() if faults.event(node, settings.conditions)}
    answers = faults.plan(seen, settings)
    busy = {action.job.id for answer in answers for action in answer if isinstance(action, Requeue)}
    lists = [
        topology.plan(seen, settings),
        *answers,
        *launches.drains(memory, seen),
        *launches.releases(memory, seen),
        *([action] for action in places.follow(seen, busy)),
        *ownership.plan(seen, broken),
    ]
    return [each for each in lists if each], memory
