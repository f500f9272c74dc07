"""The fire drill: it passes where all works, and leaves nothing behind."""

from __future__ import annotations

import signal

import httpx
import pytest

from tests.integration.drills.conftest import Drilled, Ground, interrupted

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_it_early_leaves_nothing(ground: Ground, by: signal.Signals) -> None:
    process = ground.begun()
    said = interrupted(process, by)
    assert process.returncode == 130, said
    assert "taken back" in said
    assert ground.left() == []


def test_after_a_kill_the_next_drill_takes_back_what_was_left_and_passes(ground: Ground, drilled: Drilled) -> None:
    assert drilled.done.code == 0, drilled.done.out
    assert "An earlier drill was killed" in drilled.done.out
    assert "CANCELLED" in ground.site.slurm("scontrol", "show", "job", drilled.killed_job).out
    report = drilled.report
    assert (report["verdict"], report["findings"]) == ("PASS", [])
    assert report["losses"]["exact"]
    assert 0 < max(report["losses"]["lost"]) <= 20
    reached = [stage["stage"] for stage in report["stages"]]
    assert {"told", "isolated", "answered", "replaced", "returned", "stepping", "completed"} <= set(reached)
    assert {stage["source"] for stage in report["stages"]} == {
        "drill",
        "job",
        "webhook",
        "kubernetes",
        "api",
        "slurm",
    }
    assert (ground.reports / "default" / "report.png").stat().st_size > 10_000
    # The console looked on by itself while the repair went on.
    told = httpx.get(f"http://127.0.0.1:{ground.project.cloud.port}/console/", timeout=30).text
    for text in (
        "is drained: ",
        "is back in the queue, for the first time.",
        "The machine is replaced.",
        "runs again on",
    ):
        assert text in told
    assert ground.left() == []
