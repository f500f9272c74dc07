"""The service misbehaves while an `up` runs: lost answers, no capacity, no quota, and others who change the count."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.harness import Cloud, Project, changes, leftovers
from tests.integration.conftest import NewProject

pytestmark = pytest.mark.integration

SMALL = {"nodePools": {"train": None}, "network": {"infiniband": None}}
GPUS = {"type": "h100-80gb-sxm-ib.8x", "count": 2}
INFINIBAND = {"networkId": "00000000-0000-4000-8000-000000000101"}


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Generator[Project]:
    """A small stack, up; each test adds what it needs and takes it away."""
    project = new_project("trouble")
    project.use_settings("dev", {"nodePools": {"train": None}})
    project.up()
    yield project
    project.destroy()
    assert leftovers(project.cloud) == {}


@pytest.fixture(autouse=True)
def no_faults_afterwards(cloud: Cloud) -> Generator[None]:
    yield
    cloud.admin("DELETE", "/faults")


@pytest.mark.parametrize("kind", ["http-500-after", "drop-after"])
def test_an_answer_that_is_lost_makes_no_second_pool(project: Project, kind: str) -> None:
    project.cloud.fault("POST .../kubernetes/nodepools", kind, times=1)
    key = kind.split("-")[0]
    project.change_settings({"nodePools": {key: {"type": "c1a.8x", "count": 1}}})
    project.up()
    pools = [one for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == f"trouble-{key}"]
    assert [one["id"] for one in pools] == [project.outputs()["poolIds"][key]]
    assert changes(project.preview("--refresh")) == {}
    project.change_settings({"nodePools": {key: None}})
    project.up()


def test_another_thing_of_the_same_name_is_refused_and_never_taken(new_project: NewProject, cloud: Cloud) -> None:
    project = new_project("taken")
    project.use_settings("dev", SMALL)
    body = {"name": "taken-network", "cidr": "10.77.0.0/16"}
    stranger = cloud.api("POST", "/networking/vpc-networks", body)["network"]["id"]
    result = project.up(check=False)
    assert result.code != 0
    assert f"pulumi import crusoe:index:VpcNetwork platform-network-vpc {stranger}" in result.text
    project.destroy()
    assert stranger in [one["id"] for one in cloud.items("/networking/vpc-networks")]
    cloud.api("DELETE", f"/networking/vpc-networks/{stranger}")


def test_no_capacity_names_type_location_and_where_there_is_some(project: Project) -> None:
    project.cloud.fault("POST .../kubernetes/nodepools", "capacity-500", times=1)
    project.cloud.fault("POST .../kubernetes/nodepools", "http-429")
    project.change_settings({"nodePools": {"train": GPUS}})
    project.cloud.forget_requests()
    result = project.up(check=False)
    assert result.code != 0
    for word in ("capacity", GPUS["type"], "us-east1-a"):
        assert str(word) in result.text
    assert len(project.cloud.requests("POST", "/kubernetes/nodepools")) <= 4
    project.cloud.admin("DELETE", "/faults")
    project.change_settings({"nodePools": {"train": None}})
    project.up()


def test_no_quota_is_told_with_its_name_used_and_limit(project: Project) -> None:
    quotas = project.cloud.api("GET", "/quotas")
    text = str(quotas)
    assert "h100" in text
    name = next(one["name"] for one in quotas["items"] if "h100" in str(one.get("name", "")) or "h100" in str(one))
    before = next(one for one in quotas["items"] if one["name"] == name)
    project.cloud.admin("PUT", "/quotas", {"name": name, "max": 8})
    project.change_settings({"nodePools": {"train": GPUS}})
    result = project.up(check=False)
    project.cloud.admin("PUT", "/quotas", {"name": name, "max": before["max"]})
    assert result.code != 0
    assert name in result.text
    assert "quota" in result.text
    assert "capacity" not in result.text.lower().replace("capacities", "")
    project.change_settings({"nodePools": {"train": None}})
    project.up()


def test_partial_capacity_is_a_warning_and_the_next_up_tops_the_same_pool_up(project: Project) -> None:
    project.cloud.fault("POST .../kubernetes/nodepools", "partial-capacity", vms=1, times=1)
    project.change_settings({"nodePools": {"train": {**GPUS, "minCount": 1}}})
    result = project.up()
    assert "1 of 2" in result.text
    pool = project.outputs()["poolIds"]["train"]
    assert changes(project.preview()) == {"update": ["platform-pools-train"]}
    project.up()
    (found,) = [one for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == "trouble-train"]
    assert found["id"] == pool
    assert len(found["instance_ids"]) == 2
    assert changes(project.preview()) == {}
    project.change_settings({"nodePools": {"train": None}})
    project.up()


def test_partial_capacity_below_the_minimum_fails_and_the_next_up_tops_the_same_pool_up(project: Project) -> None:
    project.cloud.fault("POST .../kubernetes/nodepools", "partial-capacity", vms=1, times=1)
    project.change_settings({"nodePools": {"train": GPUS}})
    result = project.up(check=False)
    assert result.code != 0
    assert "1 of 2" in result.text
    project.up()
    (found,) = [one for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == "trouble-train"]
    assert len(found["instance_ids"]) == 2
    project.change_settings({"nodePools": {"train": None}})
    project.up()


def test_a_label_or_version_change_never_sends_an_autoscaled_count(project: Project) -> None:
    scaled = {"type": "c1a.8x", "autoscaling": {"min": 2, "max": 8}}
    project.change_settings({"nodePools": {"elastic": scaled}})
    assert "--nodes=2:8:trouble-elastic" in project.up().text
    pool = project.outputs()["poolIds"]["elastic"]
    project.cloud.admin("PUT", f"/nodepools/{pool}/count", {"count": 7})
    assert changes(project.preview("--refresh")) == {}
    for change in ({"nodeLabels": {"example.com/team": "a"}}, {"version": "1.33.4-cmk.13"}):
        project.change_settings({"nodePools": {"elastic": change}})
        digest = project.preview()
        assert changes(digest) == {"update": ["platform-pools-elastic"]}
        (step,) = [step for step in digest["steps"] if step["op"] == "update"]
        assert len(step["detailedDiff"]) == 1
        project.cloud.forget_requests()
        project.up()
        sent = project.cloud.requests("PATCH", "/kubernetes/nodepools")
        assert sent
        assert all("count" not in one["body"] for one in sent)
    found = project.cloud.api("GET", f"/kubernetes/nodepools/{pool}")
    assert len(found["instance_ids"]) == 7
    project.change_settings({"nodePools": {"elastic": None}})
    project.up()
