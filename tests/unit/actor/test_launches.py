"""Launches that fail: who is blamed, what is drained, what is released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from actor import launches, notes
from actor.actions import Drain, Note, Release, Report
from actor.launches import Failure, Memory
from actor.state import Job, SlurmNode, Snapshot
from tests.unit.actor.support import NOW, SETTINGS, cluster, job, slurm_node

BUSY = slurm_node(1, last_busy=NOW - 1)
BACK = job(7, restarts=1, moved_at=NOW - 1 + 31)
BEFORE = Memory({7: (0, False)})


def failures(back: Job, *slurm: SlurmNode, before: Memory = BEFORE, jobs: Sequence[Job] = ()) -> list[str]:
    seen = cluster(slurm=slurm or [BUSY], jobs=[back, *jobs])
    return [each.node for each in launches.remember(before, seen, SETTINGS).failures]


def test_the_node_that_was_busy_at_that_very_second_is_to_blame() -> None:
    assert failures(BACK) == ["train-1"]


@pytest.mark.parametrize(
    ("back", "before"),
    [
        (BACK, Memory()),
        (BACK, Memory({7: (1, False)})),
        (BACK, Memory({7: (0, True)})),
        (replace(BACK, failed=True), BEFORE),
        (replace(BACK, node_count=2), BEFORE),
        (replace(BACK, moved_at=NOW + 100), BEFORE),
        (replace(BACK, partition="other"), BEFORE),
        (job(7, 1, restarts=1, moved_at=NOW + 30), BEFORE),
    ],
    ids=["first look", "same count", "was running", "exit code", "two nodes", "other time", "other nodes", "runs"],
)
def test_nobody_is_blamed_for_what_is_no_failed_launch_or_not_sure(back: Job, before: Memory) -> None:
    assert failures(back, before=before) == []


def test_two_that_fit_are_none() -> None:
    assert failures(BACK, BUSY, slurm_node(2, last_busy=NOW - 1)) == []


def test_a_node_that_works_is_not_to_blame() -> None:
    assert failures(BACK, BUSY, jobs=[job(8, 1)]) == []


def drained(*found: Failure, seen: Snapshot | None = None) -> list[str]:
    lists = launches.drains(Memory({}, found), seen or cluster())
    return [action.node for actions in lists for action in actions if isinstance(action, Drain)]


def test_two_failures_drain_a_node_and_one_does_not() -> None:
    assert drained(Failure(NOW - 60, "train-1", "7")) == []
    assert drained(Failure(NOW - 60, "train-1", "7"), Failure(NOW, "train-2", "7")) == []
    assert drained(Failure(NOW - 60, "train-1", "7"), Failure(NOW, "train-1", "8")) == ["train-1"]


def test_the_drain_names_its_owner() -> None:
    found = (Failure(NOW - 60, "train-1", "7"), Failure(NOW, "train-1", "8"))
    ((drain, report),) = launches.drains(Memory({}, found), cluster())
    assert drain == Drain("train-1", "actor: 2 launch failures in 10 min, last job 8")
    assert isinstance(report, Report)
    assert (report.kind, report.node) == ("launch-failures", "host-1")


def test_a_drained_node_is_not_drained_again_and_a_gone_one_is_forgotten() -> None:
    twice = [Failure(NOW, name, "7") for name in ("train-1", "train-1", "gone", "gone")]
    assert drained(*twice, seen=cluster(slurm=[slurm_node(1, "IDLE", "DRAIN", reason="x")])) == []


def test_failures_are_forgotten_after_ten_minutes() -> None:
    old = Memory({}, (Failure(NOW - 601, "train-1", "7"), Failure(NOW - 599, "train-2", "7")))
    assert [each.node for each in launches.remember(old, cluster(), SETTINGS).failures] == ["train-2"]


HELD = job(7, held=True, description="launch failed requeued held")


def released(held: Job, since: int) -> list[object]:
    lists = launches.releases(Memory({}, held={7: since}), cluster(jobs=[held]))
    return [action for actions in lists for action in actions]


@pytest.mark.parametrize(("releases", "wait"), list(enumerate(launches.BACK_OFF_SECONDS)))
def test_a_held_job_is_released_later_each_time(releases: int, wait: int) -> None:
    held = replace(HELD, comment=notes.write("", notes.Notes(releases=releases)))
    assert released(held, NOW - wait + 1) == []
    note, release, _ = released(held, NOW - wait)
    assert release == Release(held)
    assert isinstance(note, Note)
    assert notes.read(note.comment).releases == releases + 1


def test_in_the_end_people_are_told_once_with_the_command() -> None:
    held = replace(HELD, step_id="5_2", comment="actor[releases=4]")
    report, note = released(held, NOW - 9999)
    assert isinstance(report, Report)
    assert (report.kind, "scontrol release 5_2" in report.text) == ("held", True)
    assert isinstance(note, Note)
    assert released(replace(held, comment=note.comment), NOW - 9999) == []


@pytest.mark.parametrize("description", ["launch failure limit exceeded requeued held", "launch failed requeued held"])
def test_both_of_slurms_texts_are_known(description: str) -> None:
    assert launches.launch_held(replace(HELD, description=description))


@pytest.mark.parametrize("description", ["", "job requeued in held state"])
def test_a_job_that_somebody_holds_stays_held(description: str) -> None:
    assert released(replace(HELD, description=description), NOW - 9999) == []


def test_the_time_of_a_hold_begins_when_it_is_first_seen() -> None:
    first = launches.remember(Memory(), cluster(jobs=[HELD]), SETTINGS)
    later = launches.remember(first, cluster(jobs=[HELD], now=NOW + 60), SETTINGS)
    assert (first.held, later.held) == ({7: NOW}, {7: NOW})
    assert launches.remember(later, cluster(jobs=[job(7)]), SETTINGS).held == {}
