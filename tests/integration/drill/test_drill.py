"""The fire drill: it passes where all works, fails where a part is missing, and leaves nothing behind."""

from __future__ import annotations

import signal

import httpx
import pytest

from tests.integration.drill.conftest import Ground, interrupted

pytestmark = pytest.mark.integration
ACTOR = "app.kubernetes.io/name=slurm-actor"


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_it_early_leaves_nothing(ground: Ground, by: signal.Signals) -> None:
    process = ground.begun()
    said = interrupted(process, by)
    assert process.returncode == 130, said
    assert "taken back" in said
    assert ground.left() == []


def test_after_a_kill_the_next_drill_takes_back_what_was_left_and_passes(ground: Ground) -> None:
    process = ground.begun()
    [job] = ground.jobs()
    process.kill()
    process.communicate()
    assert (ground.reports / "running.json").exists()
    done = ground.drill()
    assert done.code == 0, done.out
    assert "An earlier drill was killed" in done.out
    assert "CANCELLED" in ground.site.slurm("scontrol", "show", "job", job).out
    report = ground.report("default")
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


def test_an_action_that_is_off_is_detected_and_told_and_no_more(ground: Ground) -> None:
    done = ground.drill("--scenario=off")
    assert done.code == 0, done.out
    reached = {stage["stage"] for stage in ground.report("off")["stages"]}
    assert "told" in reached
    assert not {"isolated", "answered", "requeued", "replaced"} & reached
    rows = ground.project.cloud.api("GET", f"/kubernetes/clusters/{_cluster(ground)}/autoclusters/config")
    actions = {row["issue_name"]: row["effective_action"] for row in rows["remediation_configs"]}
    assert actions == ground.project.outputs()["autoClusters"]["actions"], "all is as the settings have it"
    assert ground.left() == []


def test_without_the_actor_it_fails(ground: Ground) -> None:
    ground.site.kubectl("-n", "slurm", "scale", "deployment/slurm-actor", "--replicas=0")
    ground.site.kubectl("-n", "slurm", "wait", "--for=delete", "pods", "-l", ACTOR, "--timeout=60s")
    done = ground.drill()
    assert done.code == 1, done.out
    assert "Never seen: the actor answered the fault." in ground.report("default")["findings"]
    assert done.out.rstrip().endswith("FAIL default") or "FAIL default" in done.out


def _cluster(ground: Ground) -> str:
    return ground.project.outputs()["clusterId"]
