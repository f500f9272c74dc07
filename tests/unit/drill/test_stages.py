"""What was observed becomes stages, each shown by the system that did it, and shares of time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drill.observations import Observation
from drill.stages import BY_KEY, STAGES, moments, shares, story
from tests.unit.drill.making import NODE, WORKER, job, seen, step, whole

ALWAYS = {
    *("failed", "stalled", "skipped", "overtaken"),
    *("refused", "replaced-twice", "beside", "disturbed", "cancelled", "unsaved", "saved", "limited"),
}
"""Stages that a good drill has not."""


def test_a_whole_drill_reaches_every_stage_but_those_of_failed_repairs() -> None:
    found = moments(story(whole()))
    assert set(found) == {stage.key for stage in STAGES} - ALWAYS
    assert found["told"].at == 102
    assert found["stepping"].shown["step"] == 40


@pytest.mark.parametrize("key", sorted({stage.key for stage in STAGES} - ALWAYS - {"fault"}))
def test_a_stage_is_seen_only_where_its_own_system_shows_it(key: str) -> None:
    """Without what its system said, a stage is not reached, whatever the others say."""
    reached = moments(story(whole()))
    source, what = BY_KEY[key].source, reached[key].shown
    without = [each for each in whole() if not (each.source == source and each.what == what)]
    assert moments(story(without)).get(key) != reached[key]


def test_what_was_before_the_failure_is_no_part_of_its_repair() -> None:
    early = [replace(each, at=each.at - 90) for each in whole() if each.kind not in ("fault", "submitted")]
    found = moments(story([*early, seen(100, "drill", "fault", node=NODE, worker=WORKER, fault="x")]))
    assert set(found) == {"training", "fault", "completed"}


def test_another_node_s_repair_is_not_this_one_s() -> None:
    other = [
        replace(each, what={**each.what, "node": "np-9", "name": "np-9"})
        if each.kind in ("notice", "event", "node", "pod")
        else each
        for each in whole()
    ]
    found = moments(story(other))
    assert not {"told", "isolated", "drained", "answered", "evicted", "ready", "returned"} & set(found)


def test_a_drain_by_others_than_the_actor_is_no_answer() -> None:
    others = [
        replace(each, what={**each.what, "component": "node-controller"}) if each.kind == "event" else each
        for each in whole()
    ]
    assert "answered" not in moments(story(others))


def test_a_second_restart_counts_from_the_failure() -> None:
    told = [step(10, 0), job(20, "PENDING", 1), step(30, 5, 1), seen(40, "drill", "fault", node=NODE, worker=WORKER)]
    assert not {"requeued", "stepping"} & set(moments(story(told)))
    later = moments(story([*told, job(50, "PENDING", 2), step(60, 4, 2)]))
    assert (later["requeued"].at, later["stepping"].at) == (50, 60)


def test_a_small_job_that_starts_while_the_large_one_waits_overtakes_it() -> None:
    assert "overtaken" not in moments(story([*whole(), seen(98, "slurm", "filler", job="8")]))
    assert "overtaken" not in moments(story([*whole(), seen(130, "slurm", "filler", job="8")]))
    assert moments(story([*whole(), seen(107, "slurm", "filler", job="8")]))["overtaken"].at == 107


def test_the_time_until_the_next_step_belongs_to_somebody_and_none_of_it_twice() -> None:
    reached = moments(story(whole()))
    found = shares(reached, 109.0)
    assert sum(found.values()) == pytest.approx(16.0)
    assert found["platform"] == pytest.approx(103.3 - 102.3)
    assert found["delay"] == pytest.approx(2.0 + (109.0 - 108.5))
    assert found["pytorch"] == pytest.approx(6.0)


def test_without_a_failure_nobody_has_a_share() -> None:
    assert shares(moments(story([step(1, 0)]))) == {}


def beside(at: float, state: str = "RUNNING", restarts: int = 0) -> Observation:
    return seen(at, "slurm", "bystander", job="8", state=state, restarts=restarts)


def test_a_job_beside_it_ran_on_where_it_is_seen_so_after_the_new_start() -> None:
    assert "beside" not in moments(story([*whole(), beside(95), beside(109)]))
    found = moments(story([*whole(), beside(95), beside(111)]))
    assert found["beside"].at == 111
    assert "disturbed" not in found


@pytest.mark.parametrize("other", [beside(111, restarts=1), beside(104, "PENDING"), beside(104, "COMPLETING")])
def test_a_job_beside_it_that_was_touched_was_disturbed(other: Observation) -> None:
    assert "disturbed" in moments(story([*whole(), beside(95), other]))


def test_one_of_an_earlier_drill_is_not_counted() -> None:
    assert not {"beside", "disturbed"} & set(
        moments(story([*whole(), beside(90, "CANCELLED"), beside(111, "CANCELLED")]))
    )


def test_a_node_that_takes_jobs_a_moment_before_its_pod_is_ready_has_returned() -> None:
    told = [each for each in whole() if each.what.get("state") != "IDLE"]
    assert "returned" not in moments(story(told))
    early = seen(108.2, "slurm", "node", name=WORKER, state="IDLE+DYNAMIC_NORM", reason="")
    assert moments(story([*told, early]))["returned"].at == 108.5
    drained = replace(early, at=108.3, what={**early.what, "state": "IDLE+DRAIN"})
    assert "returned" not in moments(story([*told, early, drained]))


def test_a_second_repair_is_one_of_another_operation() -> None:
    again = seen(112, "api", "operation", id="o", state="SUCCEEDED", vm="v", type="replace_node")
    assert "replaced-twice" not in moments(story([*whole(), again]))
    second = replace(again, what={**again.what, "id": "p"})
    assert moments(story([*whole(), again, second]))["replaced-twice"].at == 112


def test_a_later_save_is_one_after_the_one_that_failed() -> None:
    failed, published = (
        seen(120, "job", "event", event="save-failed", step=60, trouble="rank 3: no space"),
        seen(121, "job", "event", event="save-published", step=80),
    )
    assert not {"unsaved", "saved"} & set(moments(story([*whole(), published])))
    assert not {"unsaved", "saved"} & set(moments(story([*whole(), replace(failed, at=95), published])))
    found = moments(story([*whole(), replace(published, at=119), failed, published]))
    assert (found["unsaved"].at, found["saved"].at) == (120, 121)


@pytest.mark.parametrize(("told", "limited"), [("limit", True), ("term", False), ("none", False)])
def test_a_job_ended_before_its_time_limit_where_it_was_told_of_that(told: str, limited: bool) -> None:
    ended = seen(103.5, "job", "event", event="ended", told=told, status=143)
    assert ("limited" in moments(story([*whole(), ended]))) is limited
