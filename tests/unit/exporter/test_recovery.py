"""What is measured of a recovery, and where its moments are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actor import notes
from actor.notes import Notes
from actor.state import Job
from exporter.figures import FIGURES, Moment, figures
from exporter.recovery import recoveries
from exporter.sources import Operation
from tests.unit.exporter.world import FAULT, NOW, RECOVERED, REPLACED, SETTINGS, TOLD
from training import progress


@pytest.mark.parametrize(
    ("moments", "found"),
    [
        ({}, {}),
        ({"fault": 10, "told": 12.5}, {"detect": 2.5}),
        ({"told": 12, "isolated": 13}, {"notify": 1}),
        ({"isolated": 13, "drained": 15}, {"drain": 2}),
        ({"drained": 15, "requeued": 16}, {"requeue": 1}),
        ({"isolated": 13, "replaced": 60}, {"replace": 47}),
        ({"requeued": 16, "stepping": 40}, {"resume": 24}),
        ({"fault": 10, "stepping": 40}, {"total": 30}),
        # Records count whole seconds, so a moment may seem to be up to one before its cause.
        ({"drained": 15.9, "requeued": 15}, {"requeue": 0}),
        # A job that went on after its node's fault was seen: its last step is no sign of the fault.
        ({"fault": 20, "told": 12}, {}),
    ],
)
def test_a_figure_is_the_time_between_its_two_moments(moments: dict[Moment, float], found: dict[str, float]) -> None:
    assert figures(moments) == found


def test_all_figures_of_a_recovery_that_is_on_record() -> None:
    (found,) = recoveries([RECOVERED], [REPLACED], SETTINGS)
    assert (found.job_id, found.restart, found.pool, found.steps_lost) == ("7", 1, "train", 14)
    assert figures(found.moments) == {
        "detect": 2.5,
        "notify": 1,
        "drain": 2,
        "requeue": 1,
        "replace": 59,
        "resume": 26.5,
        "total": 33,
    }
    assert set(figures(found.moments)) == set(FIGURES)


def test_in_the_middle_of_a_recovery_there_is_what_has_happened() -> None:
    middle = replace(RECOVERED, said="", submitted=int(NOW) - 96)
    (found,) = recoveries([middle], [replace(REPLACED, state="IN_PROGRESS", completed=0)], SETTINGS)
    assert set(figures(found.moments)) == {"notify", "drain", "requeue"}
    assert found.steps_lost is None


@pytest.mark.parametrize(
    "stale",
    [
        replace(RECOVERED, comment=""),
        # Restarted once more since then: submission and steps belong to another event.
        replace(RECOVERED, restarts=2),
        replace(RECOVERED, comment="actor[fault=1/2/3]"),
        replace(RECOVERED, comment="actor[fault=a/b/c/d/e/f]"),
    ],
)
def test_what_belongs_to_another_event_is_no_recovery(stale: Job) -> None:
    assert recoveries([stale], [REPLACED], SETTINGS) == []


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        (replace(RECOVERED, said=progress.write("", replace(TOLD, attempt=0))), {"detect", "resume", "total"}),
        (replace(RECOVERED, said="training[nonsense]"), {"detect", "resume", "total"}),
        # What a user made up.
        (replace(RECOVERED, said="training[attempt=1 first_at=1 stopped_at=5]"), {"detect", "resume", "total"}),
        (
            replace(RECOVERED, said=progress.write("", replace(TOLD, stopped_at=NOW + 9e9))),
            {"detect", "total"},
        ),
        # It put itself back into the queue before anybody saw the fault.
        (replace(RECOVERED, submitted=FAULT.drained - 500), {"requeue"}),
        (
            replace(RECOVERED, comment=notes.write("", Notes(fault=replace(FAULT, told=0)))),
            {"detect", "notify"},
        ),
    ],
)
def test_a_value_of_before_spoils_no_figure(changed: Job, missing: set[str]) -> None:
    (found,) = recoveries([changed], [REPLACED], SETTINGS)
    assert set(FIGURES) - set(figures(found.moments)) == missing


@pytest.mark.parametrize(
    "other",
    [
        replace(REPLACED, vm="vm-2"),
        replace(REPLACED, state="FAILED"),
        # The same machine was repaired a day before.
        replace(REPLACED, completed=NOW - 86_400),
    ],
)
def test_only_the_replacement_of_that_machine_after_that_fault_counts(other: Operation) -> None:
    (found,) = recoveries([RECOVERED], [other], SETTINGS)
    assert "replace" not in figures(found.moments)
    (found,) = recoveries([RECOVERED], [other, REPLACED, replace(REPLACED, completed=NOW)], SETTINGS)
    assert figures(found.moments)["replace"] == 59
