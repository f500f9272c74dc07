"""AutoClusters' repairs, from its history and from what nodes say: pure functions.

Before AutoClusters opens an operation only the node itself shows that something is being done: a condition that says
so, then a mark, then a cordon while its pods leave.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from actor import facts
from actor.state import Mark
from exporter.sources import AutoClusters, Machine, Operation

State = Literal["detected", "notified", "draining", "replacing", "done", "failed", "stuck"]
"""`detected`: a condition says so. `notified`: the node is marked. `draining`: marked and cordoned. `replacing`, `done`
and `failed` are AutoClusters' own; `stuck` is one that it tried to replace more than once without success."""

KEPT_SECONDS = 24 * 3600.0
"""How long a repair is told after its end."""

_ACTIONS: Mapping[str, str] = {"replace_node": "REPLACE_NODE", "detect_only": "OFF"}
_STATES: Mapping[str, State] = {"IN_PROGRESS": "replacing", "SUCCEEDED": "done", "FAILED": "failed"}


@dataclass(frozen=True)
class Repair:
    """A repair; a part that nobody tells is `none`. Times in seconds since 1970, 0 for none.

    Attributes:
        operation: id in AutoClusters' history.
        action: what AutoClusters does about the issue.
    """

    state: State
    operation: str = "none"
    node: str = "none"
    pool: str = "none"
    leaf: str = "none"
    issue: str = "none"
    action: str = "none"
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True)
class Place:
    """Where a VM is, or was."""

    node: str
    pool: str
    leaf: str


def repairs(
    found: AutoClusters | None, machines: Sequence[Machine], places: Mapping[str, Place], now: float
) -> list[Repair]:
    """All repairs that go on, and those that ended in the last day; `places` by the VM's id, also of VMs that are gone.

    Without AutoClusters' history only what nodes say is told.
    """
    history = found or AutoClusters()
    opened = [_of_operation(each, history.operations, places) for each in history.operations]
    running = {each.vm for each in history.operations if each.state == "IN_PROGRESS"}
    failures = _failures(history.operations)
    shown = [
        _of_machine(each, history, places)
        for each in machines
        if each.node.instance not in running and each.node.instance not in failures and _suspect(each)
    ]
    return [*(each for each in opened if not each.ended or now - each.ended <= KEPT_SECONDS), *shown]


def ended(found: AutoClusters, places: Mapping[str, Place]) -> Iterator[Repair]:
    """Every repair of the whole history that is done or has failed."""
    for each in found.operations:
        repair = _of_operation(each, found.operations, places)
        if repair.state in ("done", "failed", "stuck"):
            yield repair


def _of_operation(one: Operation, operations: Sequence[Operation], places: Mapping[str, Place]) -> Repair:
    state = _STATES.get(one.state, "replacing")
    if state == "failed" and _failures(operations).get(one.vm, ("", 0))[1] > 1:
        state = "stuck"
    place = places.get(one.vm, Place("none", "none", "none"))
    return Repair(
        state,
        one.id,
        place.node,
        place.pool,
        place.leaf,
        # Without an issue a person has asked for it.
        one.issue or "manual",
        # What was done: the configuration may say something else by now.
        _ACTIONS.get(one.kind, one.kind.upper() or "none"),
        one.started,
        0.0 if state == "replacing" else one.completed,
    )


def _failures(operations: Sequence[Operation]) -> dict[str, tuple[str, int]]:
    """For each VM whose last operation has failed: that one's id, and how many failed in a row."""
    found: dict[str, tuple[str, int]] = {}
    for each in sorted(operations, key=lambda one: one.started):
        if each.state == "FAILED":
            found[each.vm] = (each.id, found.get(each.vm, ("", 0))[1] + 1)
        else:
            found.pop(each.vm, None)
    return found


def _suspect(machine: Machine) -> bool:
    return machine.node.remediation is not None or any(_findings(machine))


def _findings(machine: Machine) -> Iterator[Mark]:
    """Conditions of a node that somebody has found, such as the problem detector: not the kubelet's usual ones."""
    return (mark for kind, mark in machine.node.conditions.items() if kind not in facts.USUAL_CONDITIONS)


def _of_machine(machine: Machine, found: AutoClusters, places: Mapping[str, Place]) -> Repair:
    node = machine.node
    place = places.get(node.instance, Place(node.name, "none", machine.leaf))
    state: State = "detected" if node.remediation is None else "draining" if node.cordoned else "notified"
    since = max((each.since for each in _findings(machine)), default=0)
    action = found.actions.get(machine.issue, "none")
    return Repair(state, "none", node.name, place.pool, machine.leaf, machine.issue, action, float(since))
