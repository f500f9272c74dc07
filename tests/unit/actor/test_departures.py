"""Jobs that left a node by themselves, and a fault that is seen there afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from actor import departures, facts, notes
from actor.actions import Action, Drain, Note, Report, Requeue, Reserve
from actor.departures import SECONDS, Departure
from actor.look import Memory, look
from actor.notes import Fault, Notes
from actor.state import Job, KubeNode
from tests.unit.actor.support import NOW, SETTINGS, XID, cluster, job, kube

RUNS = job(7, 0, 1)
LEFT = replace(job(7), node_count=2, restarts=1)
BROKEN = kube(1, remediation=XID)


def looks(*moments: tuple[int, Sequence[Job], KubeNode | None]) -> list[Action]:
    """What the last of some looks does, each so many seconds after the first."""
    memory, lists = Memory(), list[list[Action]]()
    for after, jobs, node in moments:
        seen = cluster(jobs=jobs, nodes=[node] if node else (), now=NOW + after)
        lists, memory = look(seen, memory, SETTINGS)
    return [action for actions in lists for action in actions]


def noted(actions: Sequence[Action]) -> list[Notes]:
    return [notes.read(action.comment) for action in actions if isinstance(action, Note)]


def test_a_fault_that_is_seen_later_is_noted_with_the_job_that_left_and_it_keeps_its_place() -> None:
    actions = looks((0, [RUNS], None), (1, [LEFT], None), (5, [LEFT], BROKEN))
    (found,) = noted(actions)
    assert found == Notes(hosts=("vm-1",), faults=1, fault=Fault(1, 0, NOW + 5, NOW + 5, "vm-1", "test-train"))
    assert [each for each in actions if isinstance(each, Reserve)] == [
        Reserve(LEFT, "actor-7", ("train-0", "train-2")),
    ]
    assert Drain("train-1", f"slurm-operator: {XID.text}") in actions
    assert not [each for each in actions if isinstance(each, Requeue)], "it is in the queue already"
    (told,) = [each for each in actions if isinstance(each, Report)]
    assert "had left by themselves before: 7" in told.text


def test_what_others_run_on_meanwhile_is_not_waited_for() -> None:
    small = job(8, 0)
    actions = looks((0, [RUNS], None), (1, [LEFT, small], BROKEN))
    (kept,) = [each for each in actions if isinstance(each, Reserve)]
    assert kept.nodes == ("train-2", "train-3")


def test_one_that_is_running_again_elsewhere_is_noted_and_left_alone() -> None:
    again = replace(RUNS, nodes=("train-2", "train-3"), restarts=1)
    actions = looks((0, [RUNS], None), (1, [LEFT], None), (40, [again], BROKEN))
    assert [each.fault.restart for each in noted(actions) if each.fault] == [1]
    assert not [each for each in actions if isinstance(each, (Requeue, Reserve))]


@pytest.mark.parametrize(
    "later",
    [
        (SECONDS + 2, [LEFT], BROKEN),
        (5, [replace(LEFT, restarts=2)], BROKEN),
        (5, [replace(LEFT, states=frozenset({"CANCELLED"}))], BROKEN),
        (5, [LEFT], kube(2, remediation=XID)),
        (5, [LEFT], replace(BROKEN, annotations={facts.HANDLED: XID.id})),
    ],
    ids=["too long ago", "left another node since", "cancelled", "another node", "answered before"],
)
def test_a_fault_that_is_not_its_own_is_not_noted(later: tuple[int, Sequence[Job], KubeNode | None]) -> None:
    assert noted(looks((0, [RUNS], None), (1, [LEFT], None), later)) == []


def test_a_job_that_the_actor_itself_requeued_has_not_left() -> None:
    fault = Fault(1, 0, NOW, NOW, "vm-1", "test-train")
    moved = replace(LEFT, comment=notes.write("", Notes(hosts=("vm-1",), faults=1, fault=fault)))
    second = kube(0, remediation=XID)
    assert noted(looks((0, [RUNS], None), (1, [moved], second))) == []


def test_a_held_job_waits_for_a_person_and_keeps_no_nodes() -> None:
    actions = looks((0, [RUNS], None), (1, [replace(LEFT, held=True)], BROKEN))
    assert len(noted(actions)) == 1
    assert not [each for each in actions if isinstance(each, Reserve)]


def test_a_job_that_breaks_one_machine_after_the_other_is_suspected_though_it_leaves_by_itself() -> None:
    tired = replace(RUNS, comment="actor[hosts=vm-5+vm-6+vm-7]")
    actions = looks((0, [tired], None), (1, [replace(LEFT, comment=tired.comment)], BROKEN))
    assert [each.kind for each in actions if isinstance(each, Report)] == ["application"]
    assert not [each for each in actions if isinstance(each, Drain)]


def test_the_first_look_knows_of_nobody_that_left() -> None:
    assert noted(looks((0, [LEFT], BROKEN))) == []


def test_who_left_is_remembered_once_and_no_longer_than_that_matters() -> None:
    memory = departures.Memory({7: (0, ("train-0", "train-1"))})
    for after in range(3):
        memory = departures.remember(memory, cluster(jobs=[LEFT], now=NOW + after))
        assert memory.departures == (Departure(NOW, 7, 1, ("train-0", "train-1")),)
    memory = departures.remember(memory, cluster(jobs=[LEFT], now=NOW + SECONDS + 1))
    assert memory.departures == ()
    assert departures.remember(memory, cluster(jobs=[LEFT], now=NOW + SECONDS + 2)).departures == ()
