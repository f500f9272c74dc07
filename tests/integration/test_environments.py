"""`make new-stack` against a real API: what it writes can be brought up, and what can't work is refused in time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.harness import PROJECT_ID, ROOT, Cloud, Project, Result, execute

pytestmark = pytest.mark.integration

H100, EAST = "h100-80gb-sxm-ib.8x", "us-east1-a"


def environments(project: Project, *words: str, **environ: str) -> Result:
    """`python -m environments` in a project's folder, as `make` runs it."""
    environment = {**project.environment(), "PYTHONPATH": str(ROOT), **environ}
    return execute([sys.executable, "-m", "environments", *words], project.folder, environment)


def new_stack(project: Project, name: str, pools: str, *more: str, location: str = EAST, **environ: str) -> Result:
    words = ("--name", name, "--location", location, "--pools", pools, *more)
    return environments(project, "new-stack", *words, **environ)


@pytest.fixture(scope="module")
def project(cloud: Cloud, folder: Path) -> Project:
    return Project(folder / "new", cloud, "research")


def test_a_new_stack_is_written_previewed_and_refused_a_second_time(project: Project) -> None:
    project.cloud.forget_requests()
    made = new_stack(project, "research", f"train={H100}:2")
    assert made.code == 0, made.text
    assert {one["method"] for one in project.cloud.requests()} == {"GET"}
    for said in ("capacity: 1024 free", "0 of 8192 used", "newest of CMK v1", "us-east1-a-ib-1"):
        assert said in made.out
    commands = made.out[made.out.index("Next:") :].splitlines()[1:]
    assert [line.split()[0] for line in commands] == ["eval", "make", "make"]
    assert all("research" in line for line in commands)

    project.init()
    project.pulumi("preview", "-s", "research")

    before = project.stack_file.read_text()
    again = new_stack(project, "research", f"train={H100}:1")
    assert again.code == 1
    assert "Pulumi.research.yaml exists already and stays as it is" in again.err
    assert project.stack_file.read_text() == before


def test_a_quota_that_leaves_one_host_is_named_and_not_called_capacity(project: Project) -> None:
    project.cloud.command("set", "capacity", "--type", H100, "--quantity", "12", "--location", EAST)
    project.cloud.command("set", "quota", "--name", "h100-80gb-sxm-ib", "--max", "8")
    refused = new_stack(project, "tight", f"train={H100}:2")
    assert refused.code == 1
    assert "quota h100-80gb-sxm-ib does not allow 2 x" in refused.err
    assert "0 of its limit of 8 are used" in refused.err
    assert "capacity" not in refused.err
    assert not (project.folder / "Pulumi.tight.yaml").exists()
    assert new_stack(project, "tight", f"train={H100}:1").code == 0

    project.cloud.command("set", "quota", "--name", "h100-80gb-sxm-ib", "--max", "8192")
    short = new_stack(project, "short", f"train={H100}:13")
    assert short.code == 1
    assert "capacity for 12 more" in short.err
    assert "quota" not in short.err
    project.cloud.command("set", "capacity", "--type", H100, "--quantity", "1024", "--location", EAST)


def test_a_name_that_the_cloud_knows_is_taken(project: Project) -> None:
    project.cloud.api("POST", "/networking/vpc-networks", {"name": "held-network", "cidr": "10.77.0.0/16"})
    refused = new_stack(project, "held", "c1a.8x:2")
    assert refused.code == 1
    assert "network held-network already" in refused.err
    # The range of a network that no stack's file names is kept away from as well.
    assert new_stack(project, "free", "c1a.8x:2").code == 0
    cidr = yaml.safe_load((project.folder / "Pulumi.free.yaml").read_text())["config"]["platform"]["network"]["cidr"]
    taken = {one["cidr"] for one in project.cloud.items("/networking/vpc-networks")}
    assert cidr not in taken


def test_keys_and_projects_that_are_wrong_are_said_in_a_sentence(project: Project) -> None:
    asked = ("x", "c1a.8x:2")
    keyless = new_stack(project, *asked, CRUSOE_ACCESS_KEY_ID="", CRUSOE_SECRET_KEY="")
    assert (keyless.code, len(keyless.err.splitlines())) == (1, 1)
    assert "No Crusoe access key was found" in keyless.err
    other = new_stack(project, *asked, "--project", "nobodys")
    assert other.code == 1
    assert "no project named 'nobodys'" in other.err
    assert new_stack(project, "by-id", "c1a.8x:2", "--project", PROJECT_ID).code == 0
    assert not (project.folder / "Pulumi.x.yaml").exists()


def test_two_stacks_are_compared(project: Project) -> None:
    for stack in ("staging", "prod"):
        (project.folder / f"Pulumi.{stack}.yaml").write_text((ROOT / f"Pulumi.{stack}.yaml").read_text())
    told = environments(project, "promote", "--from", "staging", "--to", "prod")
    assert told.code == 0, told.text
    assert "cluster.version: 1.35.5 -> 1.33.4-cmk.73" in told.out
    missing = environments(project, "promote", "--from", "staging", "--to", "nosuch")
    assert missing.code == 1
    assert "There is no Pulumi.nosuch.yaml" in missing.err
