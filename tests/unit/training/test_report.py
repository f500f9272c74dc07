"""What a job tells of itself: as text, from its records, and when."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from training import progress, report
from training.progress import Progress
from training.report import Story, Tail, allocated, due, follow


@pytest.mark.parametrize("comment", ["", "mine", "mine training[step=1]", "training[] mine", "a actor[hosts=b] c"])
@pytest.mark.parametrize(
    "told", [Progress(), Progress(2, 340, 1000, 320, 1764512345.123, useful=1.5, lost=3), Progress(saved=0)]
)
def test_progress_is_read_as_written_and_what_others_wrote_stays(comment: str, told: Progress) -> None:
    text = progress.write(comment, told)
    assert progress.read(text) == told
    assert ("mine" in text) is ("mine" in comment)
    assert ("actor[hosts=b]" in text) is ("actor" in comment)
    assert progress.write(text, told) == text


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "mine",
        "training[step]",
        "training[step=x]",
        "training[unknown=1]",
        "training[useful=nan]",
        "training[useful=inf]",
        "training[lost=-1]",
        "training[first_at=1e999]",
    ],
)
def test_what_is_no_progress_is_none(comment: str) -> None:
    assert progress.read(comment) is None


def step(number: int, at: float, attempt: int = 0, started: int = 0) -> dict[str, Any]:
    return {"step": number, "time": at, "attempt": attempt, "round": started, "loss": "0x1"}


def event(name: str, at: float, attempt: int = 0, **facts: Any) -> dict[str, Any]:
    return {"event": name, "time": at, "attempt": attempt, "round": 0, **facts}


FIRST = [
    event("fresh", 10),
    event("save-published", 10.5, step=0),
    step(1, 12),
    step(2, 13),
    step(3, 14),
    event("save-published", 14.5, step=3),
    step(4, 16),
    step(5, 17),
]
SECOND = [
    event("requeued", 20, pause=30.0),
    event("resumed", 60, 1, step=3),
    step(4, 62, 1),
    step(5, 63, 1),
    event("save-published", 64, 1, step=5),
    step(6, 66, 1),
]


def told(records: Sequence[dict[str, Any]], attempt: int) -> Progress:
    story = Story(attempt, 100)
    for record in records:
        (story.step if "step" in record and "event" not in record else story.event)(record)
    return story.progress(50.0)


def test_of_the_first_attempt() -> None:
    found = told(FIRST, 0)
    assert found == Progress(
        step=5, steps=100, saved=3, saved_at=14.5, save_every=4.0, useful=7.0, allocated=50.0, first_at=12
    )


def test_after_a_failure_the_second_attempt_tells_what_was_lost_and_each_step_counts_once() -> None:
    found = told([*FIRST, *SECOND], 1)
    # Steps 1 to 3 of the first attempt took 4 s, and 4 to 6 of the second 6 s.
    assert (found.useful, found.lost, found.own) == (10.0, 2, 1)
    assert (found.stopped_at, found.stopped, found.resumed_at, found.resumed, found.first_at) == (17, 5, 60, 3, 62)
    assert (found.saved, found.saved_at, found.save_every) == (5, 64, 0.0)
    # Before its first step it knows nothing of the kind.
    begun = told([*FIRST, *SECOND[:2]], 1)
    assert (begun.first_at, begun.stopped_at, begun.resumed_at, begun.lost) == (0, 0, 60, 0)


def test_a_requeue_without_a_pause_is_no_crash() -> None:
    assert told([event("requeued", 20, pause=0.0)], 1).own == 0


def test_steps_that_a_torn_line_took_away_do_no_harm() -> None:
    found = told([event("fresh", 10), step(1, 11), step(3, 13), event("resumed", 20, 1, step=1), step(2, 22, 1)], 1)
    assert (found.useful, found.lost, found.step) == (3.0, 2, 2)


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0.0),
        ([{"start": 10, "queued": 5}], 90.0),
        # Ended at 40 when Slurm put it back into the queue, and began again at 60.
        ([{"start": 10, "queued": 5}, {"start": 60, "queued": 40}], 70.0),
    ],
)
def test_how_long_a_job_had_its_nodes(attempts: list[dict[str, Any]], seconds: float) -> None:
    assert allocated(attempts, 100.0) == seconds


NEW = Progress(step=5, saved=3, first_at=12)


@pytest.mark.parametrize(
    ("before", "now", "waited", "is_due"),
    [
        (Progress(), NEW, 0.0, True),  # the first step
        (NEW, replace(NEW, saved=6), 1.0, False),
        (NEW, replace(NEW, saved=6), 5.0, True),
        (NEW, replace(NEW, step=6), 30.0, False),
        (NEW, replace(NEW, step=6), 60.0, True),
        (NEW, NEW, 600.0, False),
    ],
)
def test_when_slurm_is_told(before: Progress, now: Progress, waited: float, is_due: bool) -> None:
    assert due(before, now, waited) is is_due


def test_only_whole_lines_are_read_each_once(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    tail = Tail(path)
    assert list(tail.new()) == []
    path.write_text('{"step": 1}\nnonsense\n[]\n{"st')
    assert list(tail.new()) == [{"step": 1}]
    with path.open("a") as file:
        file.write('ep": 2}\n')
    assert list(tail.new()) == [{"step": 2}]


def test_a_run_is_told_of_at_its_first_step_and_once_more_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LOOK_SECONDS", 0.01)
    heard: list[Progress] = []
    end, first = threading.Event(), threading.Event()

    def tell(now: Progress) -> None:
        heard.append(now)
        first.set()

    start = [{"start": 0, "queued": 0}]
    thread = threading.Thread(target=follow, args=(tmp_path, Story(0, 100), start, tell, end))
    thread.start()
    (tmp_path / "events.jsonl").write_text(f"{json.dumps(event('fresh', 10))}\n")
    with (tmp_path / "steps.jsonl").open("w") as file:
        file.write(f"{json.dumps(step(1, 12))}\n")
        file.flush()
        assert first.wait(10)
        file.write(f"{json.dumps(step(2, 13))}\n")
    end.set()
    thread.join(10)
    assert [each.step for each in heard] == [1, 2]
    assert heard[-1].allocated > 0
