"""Ctrl-C in the middle of an `up`: it ends soon, state stays true, the next run finishes the work.

After a kill: test_runbooks.py.
"""

from __future__ import annotations

import os
import signal
import time
from subprocess import Popen

import pytest

from tests.harness import Cloud, Project, ended, leftovers, until
from tests.integration.conftest import NewProject

pytestmark = pytest.mark.integration

POST_POOL = "POST .../kubernetes/nodepools"


def up_until_the_pool_is_asked_for(project: Project) -> Popen[str]:
    """Starts an `up` whose pool operation stalls, and waits until the cloud has seen the request."""
    project.cloud.forget_requests()
    project.cloud.fault(POST_POOL, "stall-operation")
    process = project.start("up", "--yes", "--skip-preview", "-s", project.stack)
    until(lambda: bool(project.cloud.requests("POST", "/kubernetes/nodepools")), 120, "the request for a pool")
    return process


def names(cloud: Cloud, stack: str) -> list[str]:
    """Everything of one stack that the cloud has."""
    return [name for found in leftovers(cloud).values() for name in found if name.startswith(f"{stack}-")]


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_ends_within_seconds_and_the_next_up_finishes(
    new_project: NewProject, cloud: Cloud, interrupts: int
) -> None:
    project = new_project(f"ctrlc{interrupts}")
    project.use_settings("dev", {"nodePools": {"train": None}, "network": {"infiniband": None}})
    process = up_until_the_pool_is_asked_for(project)
    start = time.monotonic()
    for number in range(interrupts):
        time.sleep(0.5 * number)
        os.killpg(process.pid, signal.SIGINT)
    out = ended(process, 30)
    assert time.monotonic() - start < 10, out
    assert process.returncode != 0
    assert "Traceback" not in out
    cloud.admin("DELETE", "/faults")
    if interrupts == 1:
        recorded = {one["id"] for one in project.resources() if one.get("id")}
        assert {one["id"] for one in cloud.items("/kubernetes/nodepools")} <= recorded
    else:
        project.pulumi("cancel", "--yes", "-s", project.stack, check=False)
        project.pulumi("refresh", "--clear-pending-creates", "--yes", "--skip-preview", "-s", project.stack)
    project.up()
    assert [one["name"] for one in cloud.items("/kubernetes/nodepools")] == [f"{project.stack}-system"]
    project.destroy()
    assert names(cloud, project.stack) == []
