"""Who holds which GPUs, and what a node's state is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from localcloud.autoclusters.incidents import Incident
from localcloud.console.gathering import Vm
from localcloud.console.roles import ROLES, STATES, Node, nodes, role, total
from localcloud.console.sights import ClusterSight, NodeSight, PodSight, SlurmNodeSight
from tests.unit.localcloud_console.making import incident, job, sight, vm, worker

POD = PodSight("n", "p", "np-1-0", 2)


def one(
    seen: ClusterSight | None, machine: Vm | None = None, gpus: int = 8, repairs: Mapping[str, Incident] | None = None
) -> Node:
    return nodes([machine or vm()], gpus, seen, repairs or {})[0]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (worker(), "training"),
        (worker(part=""), "training"),
        (worker(part="borrow"), "borrowed"),
        (worker(part="", lent=True), "borrowed"),
        (replace(POD, part="floor"), "inference"),
        (replace(POD, part="burst"), "inference"),
        (replace(POD, share="chat"), "inference"),
        (POD, "other"),
    ],
)
def test_roles_are_told_by_labels(pod: PodSight, expected: str) -> None:
    assert role(pod) == expected


def test_every_gpu_has_one_role() -> None:
    node = one(sight(1, pods=(worker(gpus=4), replace(POD, part="floor"))))
    held = {name: count for name, count in node.held.items() if count}
    assert held == {"training": 4, "inference": 2, "spare": 2}
    assert list(node.held) == list(ROLES)


def changed(**changes: Any) -> ClusterSight:
    return sight(1, nodes={"np-1-0": NodeSight("np-1-0", **changes)})


def drained() -> ClusterSight:
    return sight(1, pods=(worker(),), slurm_nodes={"train-0": SlurmNodeSight("train-0", frozenset({"IDLE", "DRAIN"}))})


@pytest.mark.parametrize(
    ("seen", "machine", "phase", "state"),
    [
        (sight(1), None, "", "free"),
        (sight(1, pods=(worker(),)), None, "", "busy"),
        (None, None, "", "unseen"),
        (sight(0), None, "", "unseen"),
        (replace(sight(1), nodes={"another": NodeSight("another")}), None, "", "not-ready"),
        (changed(ready=False), None, "", "not-ready"),
        (changed(cordoned=True), None, "", "closed"),
        (changed(power=False), None, "", "no-power"),
        (changed(lost=frozenset({3})), None, "", "fault"),
        (changed(unhealthy="XID_48", cordoned=True), None, "", "fault"),
        (drained(), None, "", "drained"),
        (changed(), None, "injected", "fault"),
        (changed(), None, "detected", "fault"),
        (changed(cordoned=True, lost=frozenset({3})), None, "isolated", "repair"),
        (changed(), None, "replacing", "repair"),
        (changed(), None, "stalled", "repair"),
        (changed(), None, "off", "free"),
        (changed(), vm(state="STATE_CREATING"), "", "starting"),
        (changed(), vm(state="STATE_DELETING"), "replacing", "leaving"),
    ],
)
def test_the_state_is_what_has_to_be_known_first(
    seen: ClusterSight | None, machine: Vm | None, phase: str, state: str
) -> None:
    repairs = {"vm-0": incident(phase)} if phase else {}
    assert one(seen, machine, repairs=repairs).state == state


@pytest.mark.parametrize(("changes", "spare"), [({}, 6), ({"cordoned": True}, 0), ({"ready": False}, 0)])
def test_what_nobody_can_have_is_not_spare(changes: dict[str, Any], spare: int) -> None:
    node = one(replace(changed(**changes), pods=(POD,)))
    assert (node.held["spare"], node.held["out"], node.held["other"]) == (spare, 6 - spare, 2)


def test_a_gpu_that_fell_off_the_bus_is_nobodys_though_a_pod_asked_for_it() -> None:
    node = one(replace(changed(lost=frozenset({3})), pods=(worker(),)))
    assert (node.held["training"], node.held["out"]) == (7, 1)


@pytest.mark.parametrize("gpus", [0, 1, 8])
@pytest.mark.parametrize(
    "make", [lambda: sight(1), lambda: changed(lost=frozenset(range(8))), lambda: replace(changed(), pods=(worker(),))]
)
def test_the_sum_is_always_what_the_machine_has(make: Callable[[], ClusterSight], gpus: int) -> None:
    node = one(make(), gpus=gpus)
    assert sum(node.held.values()) == gpus
    assert min(node.held.values()) >= 0


def test_jobs_are_found_through_the_workers() -> None:
    jobs = (job(1, nodes=("train-0", "train-1")), job(2, "PENDING", nodes=("train-0",)), job(3, nodes=("train-1",)))
    found = nodes([vm(0), vm(1)], 8, sight(2, pods=(worker(0), worker(1)), jobs=jobs), {})
    assert [node.jobs for node in found] == [("1",), ("1", "3")]


def test_a_total_is_of_all_nodes() -> None:
    found = nodes([vm(0), vm(1)], 8, sight(2, pods=(worker(0),)), {})
    assert {name: count for name, count in total(found).items() if count} == {"training": 8, "spare": 8}


def test_signs_and_words_tell_all_apart_without_a_colour() -> None:
    for kinds in (STATES, ROLES):
        assert len({kind.sign for kind in kinds.values()}) == len({kind.word for kind in kinds.values()}) == len(kinds)
