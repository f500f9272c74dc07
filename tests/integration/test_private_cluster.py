"""A private cluster answers inside its network only: elsewhere `up` says so soon, and inside the next one finishes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness import Project, leftovers, running_cloud

pytestmark = pytest.mark.integration


def test_up_from_outside_says_from_where_it_must_run_and_inside_it_finishes(tmp_path: Path) -> None:
    with running_cloud(tmp_path, "--outside-vpc") as cloud:
        project = Project(tmp_path / "private", cloud, "private")
        project.init()
        small = {"cluster": {"private": True}, "nodePools": {"train": None}, "network": {"infiniband": None}}
        project.use_settings("dev", small)
        outside = project.up(check=False)
        assert outside.code != 0
        assert "private" in outside.text
        assert "inside its VPC network" in outside.text
        (seconds,) = {
            int(one) for one in re.findall(r"platform-cluster-cmk \*\*creating failed.*?\((\d+)s\)", outside.text)
        } or {0}
        assert seconds <= 30
        (cluster,) = cloud.items("/kubernetes/clusters")
        cloud.down()
        cloud.options = ("--no-outside-vpc",)
        cloud.up()
        project.up()
        assert [one["id"] for one in cloud.items("/kubernetes/clusters")] == [cluster["id"]]
        project.destroy()
        assert leftovers(cloud) == {}
