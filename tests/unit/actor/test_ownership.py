"""Whose drain it is, and which drains end with the machine."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from actor import facts, ownership
from actor.actions import Action, Remember, Report, Undrain
from actor.state import KubeNode
from tests.unit.actor.support import NOW, cluster, kube, names, slurm_node, worker

NEW = kube(1, instance="vm-9")
STARTED = NOW - 100


@pytest.mark.parametrize(
    ("reason", "owner"),
    [
        ("slurm-operator: XID 79", "operator"),
        ("slurm-operator:", "operator"),
        ("health: gpu-count 7 of 8", "health"),
        ("actor: 2 launch failures in 10 min, last job 8", "actor"),
        ("Kill task failed", "slurm"),
        ("Not responding", "slurm"),
        ("gres/gpu count reported lower than configured (7 < 8)", "slurm"),
        ("Prolog error", "slurm"),
        ("bad fan", "human"),
        ("Health check by ada", "human"),
        ("see ticket: health: 12", "human"),
        ("", "human"),
    ],
)
def test_owner(reason: str, owner: str) -> None:
    assert ownership.owner(reason) == owner


def planned(
    reason: str = "",
    *,
    at: int = NOW - 500,
    ready: int | None = NOW - 60,
    extra: str = '{"instance": "vm-1"}',
    node: KubeNode = NEW,
    broken: Collection[str] = (),
) -> list[Action]:
    states = ("IDLE", "DRAIN") if reason else ("IDLE",)
    one = slurm_node(1, *states, reason=reason, reason_at=at, extra=extra)
    seen = cluster(slurm=[one], nodes=[node], workers=[worker(1, started=STARTED, ready=ready)])
    return [action for actions in ownership.plan(seen, broken) for action in actions]


@pytest.mark.parametrize(
    "reason",
    ["slurm-operator: XID 79", "health: ecc 3", "actor: 2 launch failures in 10 min, last job 8", "Kill task failed"],
)
def test_drains_that_machines_made_end_with_the_machine(reason: str) -> None:
    actions = planned(reason)
    assert actions[:2] == [Undrain("train-1"), Remember("train-1", '{"instance": "vm-9"}')]


@pytest.mark.parametrize("reason", ["bad fan", "do not touch (ada)"])
def test_drains_of_people_never_end_by_themselves(reason: str) -> None:
    actions = planned(reason)
    assert names(actions) == ["Remember", "Report"]
    assert isinstance(actions[1], Report)
    assert actions[1].kind == "kept"


def test_a_replacement_that_is_not_fit_stays_out() -> None:
    actions = planned("health: gpu-count 7 of 8", at=STARTED + 5)
    assert names(actions) == ["Remember", "Report"]
    assert isinstance(actions[1], Report)
    assert actions[1].kind == "unfit"


def test_once_remembered_a_machine_is_not_looked_at_again() -> None:
    # Neither lifted nor told again: no loop of replacements.
    assert planned("health: gpu-count 7 of 8", at=STARTED + 5, extra='{"instance": "vm-9"}') == []


def test_the_same_machine_after_a_reboot_stays_drained() -> None:
    assert planned("slurm-operator: XID 79", node=kube(1)) == []


def test_health_checks_have_the_first_word() -> None:
    assert planned("slurm-operator: XID 79", ready=NOW - 5) == []
    assert planned("slurm-operator: XID 79", ready=None) == []


def test_a_node_that_is_cordoned_or_broken_waits() -> None:
    assert planned("slurm-operator: XID 79", node=kube(1, instance="vm-9", cordoned=True)) == []
    assert planned("slurm-operator: XID 79", broken={"host-1"}) == []


def test_a_machine_is_remembered_from_the_start_and_nothing_else_of_the_extra_is_lost() -> None:
    assert planned(extra="") == [Remember("train-1", '{"instance": "vm-9"}')]
    assert planned(extra='{"rack": "a"}') == [Remember("train-1", '{"instance": "vm-9", "rack": "a"}')]
    # A drain of which nobody knows the machine stays.
    assert planned("health: ecc 3", extra="") == [Remember("train-1", '{"instance": "vm-9"}')]


def test_an_extra_of_somebody_else_is_left_alone() -> None:
    assert planned("health: ecc 3", extra="rack=a") == []


def test_slurms_reasons_do_not_begin_like_ours() -> None:
    ours = (facts.OPERATOR_PREFIX, facts.HEALTH_PREFIX, facts.ACTOR_PREFIX)
    assert not [each for each in ours if each.startswith(facts.SLURM_REASONS)]
