"""The watch: what ended is started again, and only what should run and nobody else works on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from localcloud.control_plane import ClusterSpec, ControlPlaneError, NoControlPlane
from tests.unit.localcloud.conftest import Api, running

CLUSTERS = "{p}/kubernetes/clusters"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon a changed setting is noticed."""
    monkeypatch.setattr("localcloud.watch._TICK_SECONDS", 0.01)


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0.005)


def events(api: Api, kind: str) -> list[dict[str, object]]:
    return [event.detail for event in api.cloud.journal.since() if event.kind == kind]


async def test_what_ended_is_started_again_with_its_nodes(api: Api) -> None:
    cluster = await api.cluster()
    await api.pool(cluster)
    nodes = dict(api.plane.node_specs[cluster])
    await api.admin("PATCH", "settings", {"watch_seconds": 0.01})
    api.plane.delete(cluster)
    await until(lambda: bool(events(api, "cluster.revived")))
    assert events(api, "cluster.revived") == [{"name": "clu", "ended": ["kube-apiserver"]}]
    assert api.plane.node_specs[cluster] == nodes


async def test_switched_off_it_looks_only_when_asked(api: Api) -> None:
    cluster = await api.cluster()
    settings = await api.admin("PATCH", "settings", {"watch_seconds": 0})
    assert settings["watch_seconds"] == 0
    api.plane.delete(cluster)
    await asyncio.sleep(0.1)
    assert cluster not in api.plane.clusters
    found = {"cluster": "clu", "ended": ["kube-apiserver"], "error": None}
    assert await api.admin("POST", "watch") == {"items": [found]}
    assert cluster in api.plane.clusters
    assert await api.admin("POST", "watch") == {"items": []}


class Broken(NoControlPlane):
    """Control planes that don't come back."""

    attempts = 0

    def ensure_running(self, cluster: ClusterSpec) -> None:
        self.attempts += 1
        raise ControlPlaneError(f"{cluster.name}: etcd isn't ready")


async def test_one_that_does_not_come_back_is_told_once_and_tried_ever_more_rarely(tmp_path: Path) -> None:
    plane = Broken()
    async with running(tmp_path, plane=plane) as api:
        cluster = await api.cluster()
        plane.clusters.clear()
        await api.admin("PATCH", "settings", {"watch_seconds": 0.01})
        await until(lambda: plane.attempts >= 3)
        await asyncio.sleep(0.05)
        assert plane.attempts < 6
        assert events(api, "cluster.not_revived") == [{"name": "clu", "message": "clu: etcd isn't ready"}]
        [found] = (await api.admin("POST", "watch"))["items"]
        assert found["error"] == "clu: etcd isn't ready"
        # Nor does it stand in the way of the cluster's end.
        await api.delete(f"{CLUSTERS}/{cluster}")
        assert (await api.get(CLUSTERS))["items"] == []


class SlowToEnd(NoControlPlane):
    """Control planes whose data is gone some time before their deletion ends."""

    def __init__(self) -> None:
        super().__init__()
        self.half_way = threading.Event()
        self.go_on = threading.Event()

    def delete(self, cluster_id: str) -> None:
        super().delete(cluster_id)
        self.half_way.set()
        self.go_on.wait(10)


async def test_a_cluster_that_is_being_deleted_is_left_alone(tmp_path: Path) -> None:
    plane = SlowToEnd()
    async with running(tmp_path, plane=plane) as api:
        cluster = await api.cluster()
        deletion = asyncio.create_task(api.delete(f"{CLUSTERS}/{cluster}"))
        await asyncio.to_thread(plane.half_way.wait, 10)
        assert await api.application.watch.look() == []
        assert cluster not in plane.clusters
        plane.go_on.set()
        await deletion


async def test_a_cluster_whose_deletion_begins_during_the_look_is_left_alone(tmp_path: Path) -> None:
    plane = NoControlPlane()
    async with running(tmp_path, plane=plane) as api:
        cluster = await api.cluster()
        plane.delete(cluster)
        look = asyncio.create_task(api.application.watch.look())
        await asyncio.sleep(0)
        item = api.cloud.store.get("cluster", cluster)
        assert item is not None
        item.body["state"] = "STATE_DELETING"
        api.cloud.store.save(item)
        assert await look == []
        assert cluster not in plane.clusters


class SlowToChange(NoControlPlane):
    """Control planes that take their time to change."""

    def __init__(self) -> None:
        super().__init__()
        self.half_way = threading.Event()
        self.go_on = threading.Event()

    def update(self, cluster: ClusterSpec) -> None:
        self.half_way.set()
        self.go_on.wait(10)
        super().update(cluster)


async def test_a_control_plane_that_is_being_changed_is_left_alone(tmp_path: Path) -> None:
    plane = SlowToChange()
    async with running(tmp_path, plane=plane) as api:
        cluster = await api.cluster()
        spec = plane.clusters.pop(cluster)
        change = asyncio.create_task(api.cloud.planes.update(spec))
        await asyncio.to_thread(plane.half_way.wait, 10)
        assert await api.application.watch.look() == []
        assert cluster not in plane.clusters
        plane.go_on.set()
        await change


@pytest.mark.parametrize("path", ["/v1/locations", "/_local/health"])
async def test_answers_carry_the_clouds_time(api: Api, path: str) -> None:
    api.cloud.move_clock(-7200.0)
    answer = await api.client.get(path)
    [date] = answer.headers.get_list("date")
    assert abs(parsedate_to_datetime(date).timestamp() - api.cloud.clock.now()) < 5
