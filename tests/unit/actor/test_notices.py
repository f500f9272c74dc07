"""Which notices are due: what was asked for, once, whoever looks."""

from __future__ import annotations

from typing import Any

import pytest

from actor import notices
from actor.notices import STATES, Book, Notice
from actor.state import Job

SINCE = 1000
ALL = frozenset({"BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY"})


def job(*states: str, **changes: Any) -> Job:
    values: dict[str, Any] = {"mail": ALL, "submitted": 1100, "started": 1200, "ended": 1300, **changes}
    return Job(7, "7", frozenset(states), **values)


def due(*looks: Job | None, book: Book | None = None, states: tuple[str, ...] = STATES) -> list[tuple[str, int]]:
    """State and restarts of all notices after some looks at one job; None is a look without it."""
    kept = book or Book(SINCE)
    for each in looks:
        # Each look may be that of another actor: only what is written is known.
        kept = notices.read(notices.write(notices.enter(kept, [each] if each else [], states, "c")))
    return [(each.state, each.restarts) for each in kept.waiting]


RUNNING = job("RUNNING")
DONE = job("COMPLETED")
AGAIN = job("PENDING", restarts=1, submitted=1400)


def test_a_notice_says_all_of_it() -> None:
    failed = job(
        *("FAILED",), name="bert", user="ada", exit=3, node_list="train-[0-1]", reason="NonZeroExitCode", restarts=0
    )
    (found,) = notices.enter(Book(SINCE), [failed], STATES, "research").waiting
    assert found == Notice(
        *("7", "bert", "ada", "FAILED", 3, 0, "train-[0-1]", 1200, 1300, "NonZeroExitCode", "research")
    )


def test_a_requeue_tells_its_moment_and_nothing_of_the_run_before() -> None:
    (found,) = notices.enter(Book(SINCE), [job("PENDING", restarts=1, submitted=1400, exit=3)], STATES, "c").waiting
    assert (found.state, found.exit, found.nodes, found.start, found.end) == ("REQUEUED", 0, "", 0, 1400)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ((RUNNING,), []),
        ((RUNNING, DONE), [("COMPLETED", 0)]),
        ((DONE, DONE, DONE), [("COMPLETED", 0)]),
        ((DONE, None), [("COMPLETED", 0)]),
        # Its epilog runs, or Slurm is about to start it anew: the end is not sure yet.
        ((job("CANCELLED", "COMPLETING"),), []),
        ((job("FAILED", "REQUEUED"),), []),
        ((job("FAILED", "SPECIAL_EXIT"),), []),
        ((RUNNING, AGAIN), [("REQUEUED", 1)]),
        ((AGAIN, AGAIN, job("RUNNING", restarts=1, submitted=1400)), [("REQUEUED", 1)]),
        ((AGAIN, job("TIMEOUT", restarts=1, submitted=1400)), [("REQUEUED", 1), ("TIMEOUT", 1)]),
        # Nobody looked in between.
        ((job("TIMEOUT", restarts=1, submitted=1250),), [("REQUEUED", 1), ("TIMEOUT", 1)]),
        ((RUNNING, job("RUNNING", restarts=3, submitted=1400)), [("REQUEUED", 3)]),
        # An ended job that somebody requeues ends twice.
        (
            (DONE, AGAIN, job("COMPLETED", restarts=1, submitted=1400)),
            [("COMPLETED", 0), ("REQUEUED", 1), ("COMPLETED", 1)],
        ),
        ((job("NODE_FAIL"),), [("NODE_FAIL", 0)]),
        ((job("OUT_OF_MEMORY"),), [("OUT_OF_MEMORY", 0)]),
    ],
)
def test_each_end_and_each_requeue_once(looks: tuple[Job | None, ...], expected: list[tuple[str, int]]) -> None:
    assert due(*looks) == expected


@pytest.mark.parametrize(
    ("mail", "told"),
    [
        (set[str](), []),
        ({"BEGIN", "TIME=80%"}, []),
        ({"END"}, ["COMPLETED", "FAILED", "CANCELLED"]),
        ({"FAIL"}, ["FAILED"]),
        ({"REQUEUE"}, ["REQUEUED"]),
        ({"END", "FAIL", "ARRAY_TASKS"}, ["COMPLETED", "FAILED", "CANCELLED"]),
    ],
)
def test_a_job_is_told_of_as_it_asks(mail: set[str], told: list[str]) -> None:
    asked = {"mail": frozenset(mail)}
    ends = [due(job(each, **asked)) for each in ("COMPLETED", "FAILED", "CANCELLED")]
    found = [*ends, due(job("PENDING", restarts=1, submitted=1400, **asked))]
    assert [state for each in found for state, _ in each] == told


def test_the_settings_narrow_it_and_what_is_left_out_is_not_told_later() -> None:
    assert due(DONE, states=("FAILED",)) == []
    assert due(AGAIN, states=("FAILED",)) == []
    book = notices.enter(Book(SINCE), [DONE], ("FAILED",), "c")
    assert due(DONE, book=book) == []


def test_what_was_before_the_first_look_is_not_told() -> None:
    assert due(job("COMPLETED", submitted=100, ended=900)) == []
    old = job("RUNNING", restarts=2, submitted=900)
    assert due(old) == []
    assert due(old, job("RUNNING", restarts=3, submitted=1400)) == [("REQUEUED", 3)]
    assert due(old, job("COMPLETED", restarts=2, submitted=900)) == [("COMPLETED", 2)]


def test_what_slurm_forgets_is_forgotten_but_not_what_waits() -> None:
    book = notices.enter(Book(SINCE), [DONE], STATES, "c")
    assert book.told == {"7": "0+"}
    after = notices.enter(book, [], STATES, "c")
    assert (after.told, after.waiting) == ({}, book.waiting)


def test_the_oldest_is_first() -> None:
    late, early = job("FAILED", ended=1500), Job(9, "9", frozenset({"FAILED"}), mail=ALL, submitted=1100, ended=1400)
    assert [each.job for each in notices.enter(Book(SINCE), [late, early], STATES, "c").waiting] == ["9", "7"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"since": 1, "told": {}, "waiting": [{"job": "1"}]}'])
def test_a_book_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"book|JSON|Expecting"):
        notices.read(text)
