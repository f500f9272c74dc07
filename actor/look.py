"""One look: everything that is to be done about what is seen. A pure function."""

from dataclasses import dataclass, field

from actor import departures, faults, launches, ownership, places, topology
from actor.actions import Action, Requeue
from actor.settings import Settings
from actor.state import Snapshot


@dataclass(frozen=True)
class Memory:
    """What one look tells the next. A new leader begins with nothing."""

    launched: launches.Memory = field(default_factory=launches.Memory)
    left: departures.Memory = field(default_factory=departures.Memory)


def look(seen: Snapshot, memory: Memory, settings: Settings) -> tuple[list[list[Action]], Memory]:
    """Lists of actions, each of which ends with the first step that fails, and the memory for the next look."""
    memory = Memory(launches.remember(memory.launched, seen, settings), departures.remember(memory.left, seen))
    broken = {node.name for node in seen.nodes.values() if faults.event(node, settings.conditions)}
    answers = faults.plan(seen, settings, memory.left.departures)
    busy = {action.job.id for answer in answers for action in answer if isinstance(action, Requeue)}
    lists = [
        topology.plan(seen, settings),
        *answers,
        *launches.drains(memory.launched, seen),
        *launches.releases(memory.launched, seen),
        *([action] for action in places.follow(seen, busy)),
        *ownership.plan(seen, broken),
    ]
    return [each for each in lists if each], memory
