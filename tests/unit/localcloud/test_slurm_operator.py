"""The loop that keeps Slurm clusters and those behind them together: when it looks, and what it does about trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from localcloud.control_plane import ControlPlaneError, NoControlPlane
from localcloud.managed_slurm import operator
from localcloud.managed_slurm.records import SlurmSpec, SlurmStatus
from tests.unit.localcloud.conftest import Api, running
from tests.unit.localcloud.test_slurm_clusters import CLUSTERS, settle, slurm


class Plane(NoControlPlane):
    """Counts the looks, and breaks on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.error: Exception | None = None

    def slurm(self, cluster_id: str, wanted: SlurmSpec) -> SlurmStatus:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return super().slurm(cluster_id, wanted)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_it_looks_when_something_happens_to_vms_and_seldom_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "_LATER_SECONDS", 60)
    monkeypatch.setattr(operator, "_SOON_SECONDS", 0.02)
    plane = Plane()
    async with running(tmp_path, plane=plane) as api:
        await slurm(api)
        await asyncio.sleep(0.2)
        before = plane.looks
        api.cloud.journal.record("disk.created", "any")
        await asyncio.sleep(0.3)
        assert plane.looks == before
        api.cloud.journal.record("vm.running", "any")
        await until(lambda: plane.looks > before)


async def test_it_looks_each_second_while_something_comes_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "_LATER_SECONDS", 60)
    monkeypatch.setattr(operator, "_SOON_SECONDS", 0.05)
    plane = Plane()
    plane.slurm_pods = 0
    async with running(tmp_path, plane=plane) as api:
        await slurm(api)
        before = plane.looks
        await until(lambda: plane.looks > before + 3)


async def test_it_looks_now_and_then_because_people_edit_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "_LATER_SECONDS", 0.05)
    plane = Plane()
    async with running(tmp_path, plane=plane) as api:
        await slurm(api)
        before = plane.looks
        await until(lambda: plane.looks > before + 3)


@pytest.mark.parametrize("error", [ControlPlaneError("the API server did not answer"), ValueError("a bug")])
async def test_trouble_is_told_once_and_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(operator, "_LATER_SECONDS", 0.02)
    plane = Plane()
    async with running(tmp_path, plane=plane) as api:
        made = await slurm(api)
        plane.error = error
        before = plane.looks
        with caplog.at_level(logging.WARNING, "localcloud.managed_slurm.operator"):
            await until(lambda: plane.looks > before + 3)
        assert sum("hpc was not looked at" in record.message for record in caplog.records) == 1
        # What was seen last stands.
        assert (await api.get(f"{CLUSTERS}/{made['id']}"))["state"] == "RUNNING"
        plane.error = None
        plane.slurm_pods = 0
        await settle(api, f"{CLUSTERS}/{made['id']}", "UNHEALTHY")


async def test_a_cluster_that_does_not_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "_LATER_SECONDS", 0.02)
    plane = Plane()
    async with running(tmp_path, plane=plane) as api:
        await api.fault("POST .../slurm/clusters", "fail-operation", times=1)
        await api.post(CLUSTERS, {"name": "hpc", "location": "us-east1-a", "root_ssh_pub_keys": ["ssh-rsa AAAA"]})
        await asyncio.sleep(0.1)
        assert plane.looks == 0


async def test_it_ends_with_the_server_at_any_moment(tmp_path: Path) -> None:
    """Events that come together with the end must not keep it from ending."""
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with running(folder) as api:
            await slurm(api)
            api.cloud.journal.record("vm.running", "any")


async def test_what_was_ready_is_journalled(api: Api) -> None:
    made = await slurm(api)
    events = [event for event in api.cloud.journal.since() if event.kind == "slurm.ready"]
    assert [(event.subject, event.detail["name"]) for event in events] == [(made["id"], "hpc")]
