"""A node fails: what is done, in which order, and what is never done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actor import facts, faults, notes
from actor.actions import Action, Annotate, Cordon, Drain, Note, Report, Requeue, Reserve, Terminate
from actor.notes import Fault
from actor.state import KubeNode, Mark, Snapshot
from tests.unit.actor.support import NOW, READ_ONLY, SETTINGS, XID, cluster, job, kube, names, slurm_node, worker

BROKEN = kube(1, remediation=XID)


def planned(seen: Snapshot) -> list[Action]:
    return [action for actions in faults.plan(seen, SETTINGS) for action in actions]


def test_the_node_is_drained_its_job_keeps_its_place_and_is_requeued_in_this_order() -> None:
    big = job(7, 0, 1)
    actions = planned(cluster(nodes=[BROKEN], jobs=[big]))
    assert names(actions) == ["Cordon", "Drain", "Note", "Reserve", "Requeue", "Report", "Annotate"]
    assert actions[0] == Cordon("host-1", XID.text)
    assert actions[1] == Drain("train-1", f"slurm-operator: {XID.text}")
    assert actions[3] == Reserve(big, "actor-7", ("train-0", "train-2"))
    assert actions[4] == Requeue(big)
    assert actions[6] == Annotate("host-1", facts.HANDLED, XID.id)


@pytest.mark.parametrize(
    ("node", "acts"),
    [
        (kube(1), False),
        (kube(1, cordoned=True), False),
        (kube(1, cordoned=True, annotations={facts.CORDON_REASON: "new kernel"}), False),
        (kube(1, conditions={"MemoryPressure": READ_ONLY}), False),
        (kube(1, conditions={"ReadonlyFilesystem": READ_ONLY}), True),
        (kube(1, remediation=XID), True),
        (kube(1, remediation=XID, cordoned=True), True),
        (kube(1, remediation=XID, annotations={facts.HANDLED: XID.id}), False),
        (kube(1, remediation=XID, annotations={facts.HANDLED: "crusoe.ai/remediation=XID_48"}), True),
    ],
)
def test_a_fault_is_answered_once_and_maintenance_never(node: KubeNode, acts: bool) -> None:
    actions = planned(cluster(nodes=[node], jobs=[job(7, 1)]))
    assert ("Requeue" in names(actions)) is acts
    assert bool(actions) is acts


def test_a_node_that_somebody_cordoned_with_a_reason_keeps_it() -> None:
    node = kube(1, remediation=XID, cordoned=True, annotations={facts.CORDON_REASON: "XID 79"})
    assert "Cordon" not in names(planned(cluster(nodes=[node])))


@pytest.mark.parametrize("reason", ["bad fan, ada", "health: gpu-count 7 of 8", "slurm-operator: XID 79"])
def test_a_drain_that_is_there_is_never_overwritten_and_jobs_leave_all_the_same(reason: str) -> None:
    drained = slurm_node(1, "ALLOCATED", "DRAIN", reason=reason)
    actions = planned(cluster(nodes=[BROKEN], slurm=[drained], jobs=[job(7, 1)]))
    assert "Drain" not in names(actions)
    assert Requeue(job(7, 1)) in actions


def test_no_action_sets_a_node_down() -> None:
    from actor import actions

    assert not [name for name in vars(actions) if "down" in name.lower()]


def test_bystanders_are_left_alone() -> None:
    bystander, waiting = job(8, 2), job(9)
    actions = planned(cluster(nodes=[BROKEN], jobs=[job(7, 0, 1), bystander, waiting]))
    touched = {each.job.id for each in actions if isinstance(each, Requeue | Terminate | Reserve | Note)}
    assert touched == {7}


def test_one_member_of_an_array_is_requeued_by_its_own_name() -> None:
    member = job(12, 1, step_id="10_1")
    (requeue,) = [
        each
        for each in planned(cluster(nodes=[BROKEN], jobs=[member, job(11, 0, step_id="10_0")]))
        if isinstance(each, Requeue)
    ]
    assert requeue.job.step_id == "10_1"


def test_a_job_that_can_not_be_requeued_is_told_to_save() -> None:
    stays = job(7, 1, requeueable=False)
    actions = planned(cluster(nodes=[BROKEN], jobs=[stays]))
    assert Terminate(stays) in actions
    assert "Requeue" not in names(actions)


def test_a_job_that_ends_already_is_not_touched() -> None:
    ending = job(7, 1, states=frozenset({"CANCELLED", "COMPLETING"}))
    assert "Requeue" not in names(planned(cluster(nodes=[BROKEN], jobs=[ending])))


def test_two_nodes_of_one_job_break_at_once() -> None:
    both = [BROKEN, kube(0, conditions={"ReadonlyFilesystem": READ_ONLY})]
    actions = planned(cluster(5, nodes=both, jobs=[job(7, 0, 1, 2)]))
    assert names(actions).count("Requeue") == 1
    (reserve,) = [each for each in actions if isinstance(each, Reserve)]
    assert reserve.nodes == ("train-2", "train-3", "train-4")
    assert {each.node for each in actions if isinstance(each, Drain)} == {"train-0", "train-1"}
    (note,) = [each for each in actions if isinstance(each, Note)]
    assert set(notes.read(note.comment).hosts) == {"vm-0", "vm-1"}


def test_a_node_without_a_worker_is_nobody_of_ours() -> None:
    seen = cluster(nodes=[kube(9, remediation=XID)])
    assert planned(seen) == []


def test_a_pool_that_opted_out_is_treated_the_same_and_the_report_says_so() -> None:
    labelled = worker(1, labels={"example.com/keep": "true"})
    settings = replace(SETTINGS, opt_out_label="example.com/keep")
    (actions,) = faults.plan(cluster(nodes=[BROKEN], workers=[labelled], jobs=[job(7, 1)]), settings)
    assert names(actions) == ["Cordon", "Drain", "Note", "Requeue", "Report", "Annotate"]
    (report,) = [each for each in actions if isinstance(each, Report)]
    assert report.kind == "opted-out"
    assert "stays drained" in report.text


def test_the_budget_of_a_job_ends_and_then_it_is_the_application() -> None:
    tired = job(7, 1, comment="actor[hosts=vm-5+vm-6+vm-7]")
    actions = planned(cluster(nodes=[BROKEN], jobs=[tired]))
    assert names(actions) == ["Report", "Annotate"]
    assert isinstance(actions[0], Report)
    assert actions[0].kind == "application"


def test_a_job_with_a_spent_budget_does_not_keep_others_on_a_broken_node() -> None:
    tired = job(7, 1, comment="actor[hosts=vm-5+vm-6+vm-7]")
    actions = planned(cluster(nodes=[BROKEN], jobs=[tired, job(8, 1)]))
    assert [each.job.id for each in actions if isinstance(each, Requeue)] == [8]
    assert "Drain" in names(actions)


def test_the_same_machine_counts_once() -> None:
    before = job(7, 1, comment="mine actor[hosts=vm-1]")
    (note,) = [each for each in planned(cluster(nodes=[BROKEN], jobs=[before])) if isinstance(each, Note)]
    assert note.comment.startswith("mine actor[hosts=vm-1 ")


SEEN = Mark("GPUXIDUnhealthy@", "GPUXIDUnhealthy: XID 79", NOW - 5)
USUAL = Mark("MemoryPressure@", "MemoryPressure: True", NOW - 2)


@pytest.mark.parametrize(
    ("node", "told", "isolated"),
    [
        (BROKEN, 0, NOW),
        (kube(1, remediation=replace(XID, since=NOW - 3)), 0, NOW - 3),
        (kube(1, remediation=XID, conditions={"GPUXIDUnhealthy": SEEN, "MemoryPressure": USUAL}), NOW - 5, NOW),
        # A condition from the future is another clock's.
        (kube(1, remediation=XID, conditions={"GPUXIDUnhealthy": replace(SEEN, since=NOW + 60)}), 0, NOW),
    ],
)
def test_the_moments_of_a_fault_are_noted_with_the_job(node: KubeNode, told: int, isolated: int) -> None:
    running = job(7, 0, 1, restarts=2, comment="actor[faults=2]")
    (note,) = [each for each in planned(cluster(nodes=[node], jobs=[running])) if isinstance(each, Note)]
    noted = notes.read(note.comment)
    assert noted.faults == 3
    assert noted.fault == Fault(3, told, isolated, NOW, "vm-1", "test-train")
