"""Staging and prod come up on the local cloud as they are shipped, so that they can't rot."""

from __future__ import annotations

import pytest

from tests.harness import Json, Project, changes, leftovers
from tests.integration.conftest import NewProject

pytestmark = pytest.mark.integration


def explicit_consent(project: Project) -> list[Json]:
    """Pools and issues without an explicit word on repairs, of either generation."""
    silent: list[Json] = []
    for cluster in project.cloud.items("/kubernetes/clusters"):
        pools = [one for one in project.cloud.items("/kubernetes/nodepools") if one["cluster_id"] == cluster["id"]]
        if "-cmk." in cluster["version"]:
            path = f"/kubernetes/clusters/{cluster['id']}/autoclusters/config"
            rows = project.cloud.api("GET", path)["remediation_configs"]
            silent += [row for row in rows if row.get("user_override") not in ("OFF", "REPLACE_NODE")]
        else:
            silent += [pool for pool in pools if pool.get("consent_mode") != "off"]
    return silent


@pytest.mark.parametrize("shipped", ["staging", "prod"])
def test_a_shipped_environment_comes_up_and_goes(new_project: NewProject, shipped: str) -> None:
    project = new_project(shipped)
    project.use_settings(shipped, slurm=True)
    project.up()
    assert changes(project.preview("--refresh")) == {}
    assert explicit_consent(project) == []
    declared = {pool["name"]: pool for pool in project.cloud.items("/kubernetes/nodepools")}
    assert all(len(pool["instance_ids"]) == pool["count"] for pool in declared.values())
    project.destroy()
    assert leftovers(project.cloud) == {}


def test_a_protected_environment_is_not_destroyed_and_nothing_is_touched(new_project: NewProject) -> None:
    project = new_project("protected")
    project.use_settings("dev", {"protect": True, "nodePools": {"train": None}, "network": {"infiniband": None}})
    project.up()
    project.cloud.forget_requests()
    refused = project.pulumi("destroy", "--yes", "-s", project.stack, check=False)
    assert refused.code != 0
    assert "protected" in refused.text
    assert {one["method"] for one in project.cloud.requests()} <= {"GET"}
    project.change_settings({"protect": False})
    project.up()
    project.destroy()
    assert leftovers(project.cloud) == {}
