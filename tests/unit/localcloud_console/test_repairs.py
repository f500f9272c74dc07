"""A repair as steps in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localcloud.autoclusters.incidents import ENDS
from localcloud.console.repairs import repair
from localcloud.console.sights import News
from tests.unit.localcloud_console.making import NOW, incident

REPLACE = "REPLACE_NODE"


def test_an_open_repair_has_what_was_what_is_and_what_comes() -> None:
    found = repair(incident("isolated"), REPLACE, [], NOW)
    assert [step.progress for step in found.steps] == ["done", "done", "done", "now", "next", "next"]
    assert [step.after for step in found.steps] == [0, 3, 6, 9, None, None]
    assert (found.open, found.took) == (True, 20)


def test_what_others_showed_meanwhile_stands_where_it_was_seen() -> None:
    news = [
        News(NOW - 10.5, "c", "slurm", "train-0 is drained: actor."),
        News(NOW - 5, "c", "kubernetes", "Worker train-0 is gone."),
        News(NOW - 5, "another", "slurm", "Not here."),
        News(NOW - 21, "c", "slurm", "Before it."),
    ]
    found = repair(incident("isolated"), REPLACE, news, NOW)
    assert [step.owner for step in found.steps][3:6] == ["AutoClusters", "Slurm", "Kubernetes"]
    assert [step.progress for step in found.steps][3:6] == ["now", "done", "done"]
    texts = [step.text for step in found.steps]
    assert "Not here." not in texts
    assert "Before it." not in texts


def test_a_job_that_starts_again_after_the_end_still_belongs_to_it_but_not_for_ever() -> None:
    done = replace(incident("replaced"), history=(("injected", NOW - 1000), ("replaced", NOW - 900)), since=NOW - 900)
    news = [News(NOW - 700, "c", "slurm", "Job 1 runs again."), News(NOW - 500, "c", "slurm", "Much later.")]
    found = repair(done, REPLACE, news, NOW)
    assert found.steps[-1].text == "Job 1 runs again."
    assert (found.open, found.took) == (False, 100)


@pytest.mark.parametrize("phase", ["injected", "failed", "detected", "isolated", "replacing", "stalled"])
@pytest.mark.parametrize("action", [REPLACE, "OFF", None])
def test_every_open_phase_has_one_present_step_and_an_end_to_come(phase: str, action: str | None) -> None:
    found = repair(incident(phase), action, [], NOW)
    assert [step.progress for step in found.steps].count("now") == 1
    assert found.steps[-1].progress == "next"


def test_where_nothing_will_be_done_no_replacement_is_promised() -> None:
    assert repair(incident("failed"), "OFF", [], NOW).steps[-1].text == "Nothing is done: the issue's action is OFF."
    last = repair(incident("failed"), None, [], NOW).steps[-1].text
    assert last == "Nothing is done: AutoClusters doesn't cover this."


@pytest.mark.parametrize("phase", ENDS)
def test_an_ended_one_has_no_step_to_come(phase: str) -> None:
    assert {step.progress for step in repair(incident(phase), REPLACE, [], NOW).steps} == {"done"}


def test_a_second_try_shows_both() -> None:
    history = tuple(
        (each, NOW - 9 + step) for step, each in enumerate(("injected", "replacing", "stalled", "replacing"))
    )
    found = repair(replace(incident("replacing"), history=history), REPLACE, [], NOW)
    assert [step.progress for step in found.steps] == ["done", "done", "done", "now", "next"]
