"""Whose nodes are kept, which ones, and until when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actor import places
from actor.actions import Action, Enter, Rearrange, Unreserve
from actor.state import Job, Reservation, SlurmNode
from tests.unit.actor.support import cluster, job, slurm_node

KEPT = Reservation("actor-7", ("train-0", "train-1"))


def kept(big: Job, *slurm: SlurmNode, reservations: tuple[Reservation, ...] = ()) -> tuple[str, ...] | None:
    seen = cluster(jobs=[big], slurm=slurm, reservations=reservations)
    found = places.keep(seen, big, {"train-1"})
    return found.nodes if found else None


def test_a_spare_takes_the_place_of_the_lost_node() -> None:
    assert kept(job(7, 0, 1)) == ("train-0", "train-2")


def test_a_spare_near_the_lost_node_comes_first() -> None:
    near, lost = slurm_node(3, topology="fabric:a"), slurm_node(1, "ALLOCATED", topology="fabric:a")
    assert kept(job(7, 0, 1), near, lost) == ("train-0", "train-3")


@pytest.mark.parametrize(
    "unfit",
    [
        {"states": frozenset({"ALLOCATED"})},
        {"states": frozenset({"IDLE", "DRAIN"})},
        {"states": frozenset({"IDLE", "NOT_RESPONDING"})},
        {"states": frozenset({"IDLE", "RESERVED"})},
        {"states": frozenset({"IDLE", "INVALID_REG"})},
        {"gres": "gpu:h100:4"},
        {"partitions": frozenset({"other"})},
        {"features": frozenset[str]()},
    ],
)
def test_without_a_fit_spare_the_lost_nodes_name_is_kept_for_its_replacement(unfit: dict[str, object]) -> None:
    others = [replace(slurm_node(number), **unfit) for number in (2, 3)]  # pyright: ignore[reportArgumentType]  one field each
    assert kept(job(7, 0, 1), *others) == ("train-0", "train-1")


def test_a_spare_that_is_kept_for_somebody_else_is_none() -> None:
    other = Reservation("actor-6", ("train-2",))
    assert kept(job(7, 0, 1), reservations=(other,)) == ("train-0", "train-3")


def test_jobs_of_one_node_and_jobs_with_a_reservation_of_their_own_get_none() -> None:
    assert kept(job(7, 1)) is None
    assert kept(job(7, 0, 1, reservation="course")) is None


@pytest.mark.parametrize(
    ("now", "actions"),
    [
        (None, [Unreserve("actor-7")]),
        (job(7, states=frozenset({"CANCELLED"}), reservation="actor-7"), [Unreserve("actor-7")]),
        (job(7, states=frozenset({"COMPLETED"})), [Unreserve("actor-7")]),
        (job(7, 0, 1, reservation="actor-7"), [Enter(job(7, 0, 1, reservation="actor-7"), ""), Unreserve("actor-7")]),
        (job(7, 0, 1), [Unreserve("actor-7")]),
        (job(7, reservation="actor-7"), []),
        (job(7), [Enter(job(7), "actor-7")]),
        (job(7, 0, 1, states=frozenset({"RUNNING", "COMPLETING"}), reservation="actor-7"), []),
        (job(7, held=True), [Unreserve("actor-7")]),
        (job(7, held=True, description="launch failed requeued held", reservation="actor-7"), []),
    ],
)
def test_a_place_is_kept_until_the_job_runs_ends_or_is_held(now: Job | None, actions: list[Action]) -> None:
    assert places.follow(cluster(jobs=[now] if now else [], reservations=[KEPT]), set()) == actions


def test_reservations_of_others_are_left_alone() -> None:
    others = [Reservation("course", ("train-0",)), Reservation("actor-course", ("train-1",))]
    assert places.follow(cluster(reservations=others), set()) == []


def test_a_place_that_was_made_in_this_look_is_left_alone() -> None:
    assert places.follow(cluster(jobs=[job(7, 0, 1)], reservations=[KEPT]), {7}) == []


def test_a_free_node_takes_the_place_of_a_reserved_one_that_can_not_be_used() -> None:
    waiting = job(7, reservation="actor-7")
    drained = slurm_node(1, "IDLE", "DRAIN")
    seen = cluster(jobs=[waiting], slurm=[drained], reservations=[KEPT])
    assert places.follow(seen, set()) == [Rearrange("actor-7", ("train-0", "train-2"))]


def test_with_no_free_node_the_place_stays() -> None:
    waiting, drained = job(7, reservation="actor-7"), slurm_node(1, "IDLE", "DRAIN")
    seen = cluster(jobs=[waiting, job(8, 2, 3)], slurm=[drained], reservations=[KEPT])
    assert places.follow(seen, set()) == []
