"""Outcomes of drills: an action that is off, a pool that is refused, a platform that lacks a part, where it fails."""

from __future__ import annotations

import pytest

from tests.integration.drills.conftest import Ground

pytestmark = pytest.mark.integration
ACTOR = "app.kubernetes.io/name=slurm-actor"


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


def test_a_pool_of_shared_hosts_is_refused_by_a_preview(ground: Ground) -> None:
    done = ground.drill("--scenario=multi-tenant")
    assert done.code == 0, done.out
    assert "platform.nodePools.train.type: l40s-48gb.1x is a slice of a host" in done.out
    assert [stage["stage"] for stage in ground.report("multi-tenant")["stages"]] == ["refused"]
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
