"""Operations: their time, their answers, and what a kill at any moment leaves."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from localcloud.control_plane import ClusterSpec, NoControlPlane, NodeSpec
from tests.unit.localcloud.conftest import V1, Api, failed, running, succeeded

DISKS = "{p}/storage/disks"
POOLS = "{p}/kubernetes/nodepools"
CLUSTERS = "{p}/kubernetes/clusters"
DISK = {"name": "d", "location": "us-east1-a", "size": "1GiB"}


async def poll(api: Api, family: str, identifier: str, tries: int = 300) -> dict[str, object]:
    for _ in range(tries):
        operation = await api.get(f"{{p}}/{family}/operations/{identifier}")
        if operation["state"] != "IN_PROGRESS":
            return operation
        await asyncio.sleep(0.01)
    raise AssertionError("the operation did not end")


async def test_finished_in_the_first_answer(api: Api) -> None:
    operation = (await api.post(DISKS, DISK))["operation"]
    assert set(operation) == {"operation_id", "state", "metadata", "result", "started_at", "completed_at"}
    assert (operation["state"], operation["metadata"]) == ("SUCCEEDED", {})
    assert operation["completed_at"].endswith("Z")
    assert await api.get(f"{DISKS}/operations/{operation['operation_id']}") == operation


async def test_takes_its_time(tmp_path: Path) -> None:
    async with running(tmp_path, seconds=0.2) as api:
        started = (await api.post(DISKS, DISK))["operation"]
        assert (started["state"], started["result"], started["completed_at"]) == ("IN_PROGRESS", None, "")
        ended = await poll(api, "storage/disks", started["operation_id"])
        assert ended["state"] == "SUCCEEDED"
        assert ended["result"] == (await api.get(DISKS))["items"][0]


async def test_lists_and_filters(api: Api) -> None:
    one = (await api.post(DISKS, DISK))["operation"]
    await api.fault("POST .../disks", "fail-operation", times=1)
    two = (await api.post(DISKS, {**DISK, "name": "e"}))["operation"]

    async def ids(**query: str) -> list[str]:
        return [item["operation_id"] for item in (await api.get(f"{DISKS}/operations", **query))["items"]]

    assert await ids() == [one["operation_id"], two["operation_id"]]
    assert await ids(state="FAILED") == [two["operation_id"]]
    assert await ids(resource_id=one["result"]["id"]) == [one["operation_id"]]
    assert await ids(state="IN_PROGRESS") == []
    await api.refused(400, "GET", f"{DISKS}/operations", state="DONE")


async def test_unknown_operation_and_wrong_family(api: Api) -> None:
    operation = (await api.post(DISKS, DISK))["operation"]
    await api.refused(403, "GET", f"{DISKS}/operations/nope")
    await api.refused(403, "GET", f"{POOLS}/operations/{operation['operation_id']}")
    other = api.cloud.keys.of_project("other")
    path = f"/projects/00000000-0000-4000-8000-000000000002/storage/disks/operations/{operation['operation_id']}"
    assert (await api.call_as(other, "GET", path)).status_code == 403


async def test_one_operation_at_a_time(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        disk = succeeded(await api.post(DISKS, DISK))
        await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
        started = (await api.patch(f"{DISKS}/{disk['id']}", {"size": "2GiB"}))["operation"]
        words = await api.refused(409, "PATCH", f"{DISKS}/{disk['id']}", {"size": "3GiB"})
        assert started["operation_id"] in words
        await api.refused(409, "DELETE", f"{DISKS}/{disk['id']}")


async def test_repeated_delete_joins_the_first(api: Api) -> None:
    disk = succeeded(await api.post(DISKS, DISK))
    await api.admin("PATCH", "settings", {"operation_seconds": 60.0})
    first = await api.delete(f"{DISKS}/{disk['id']}")
    assert await api.delete(f"{DISKS}/{disk['id']}") == first


async def test_stalled_until_the_faults_are_cleared(api: Api) -> None:
    await api.fault("POST .../disks", "stall-operation")
    started = (await api.post(DISKS, DISK))["operation"]
    await asyncio.sleep(0.05)
    assert (await api.get(f"{DISKS}/operations/{started['operation_id']}"))["state"] == "IN_PROGRESS"
    await api.admin("DELETE", "faults")
    assert (await poll(api, "storage/disks", started["operation_id"]))["state"] == "SUCCEEDED"


async def test_stalled_for_a_time(api: Api) -> None:
    await api.fault("POST .../disks", "stall-operation", seconds=0.2)
    started = (await api.post(DISKS, DISK))["operation"]
    assert started["state"] == "IN_PROGRESS"
    assert (await poll(api, "storage/disks", started["operation_id"]))["state"] == "SUCCEEDED"


async def test_fault_meets_only_the_operation_it_was_meant_for(api: Api) -> None:
    """A VM's deletion starts a replacement; failing the deletion must not fail that too."""
    pool = await api.pool(await api.cluster())
    await api.fault("DELETE .../instances/*", "fail-operation", times=1)
    failed(await api.delete(f"{{p}}/compute/vms/instances/{pool['instance_ids'][0]}"))
    succeeded(await api.delete(f"{{p}}/compute/vms/instances/{pool['instance_ids'][0]}"))
    for _ in range(100):
        await asyncio.sleep(0.01)
        if len((await api.read_pool(pool["id"]))["instance_ids"]) == 2:
            return
    raise AssertionError("the VM was not replaced")


async def test_error_inside_ends_the_operation(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: object, _nodes: object, _more: object) -> None:
        raise RuntimeError("a mistake in the local cloud")

    cluster = await api.cluster()
    monkeypatch.setattr(NoControlPlane, "apply_nodes", broken)
    body = {"name": "p", "cluster_id": cluster, "count": 1, "product_name": "c1a.8x"}
    assert failed(await api.post(POOLS, body)) == "an internal error ended the operation"
    assert (await api.get(POOLS))["items"] == []


async def test_interrupted_operation_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, seconds=60.0) as api:
        started = (await api.post(DISKS, DISK))["operation"]
    async with running(tmp_path) as api:
        # Its time is the one that it was started with, so it still runs.
        assert (await api.get(f"{DISKS}/operations/{started['operation_id']}"))["state"] == "IN_PROGRESS"
    shorten(tmp_path)
    async with running(tmp_path) as api:
        assert (await poll(api, "storage/disks", started["operation_id"]))["state"] == "SUCCEEDED"
        assert [item["name"] for item in (await api.get(DISKS))["items"]] == ["d"]


def shorten(folder: Path) -> None:
    """Let every operation of a closed state file be due."""
    connection = sqlite3.connect(folder / "cloud.db")
    with connection:
        connection.execute("UPDATE operations SET due_at = 0")
    connection.close()


class Halfway(NoControlPlane):
    """A control plane that makes one node and then hangs, so that the process can be killed meanwhile."""

    instant = False

    def __init__(self) -> None:
        super().__init__()
        self.hang = False
        self.reached = threading.Event()
        self.killed = threading.Event()

    def apply_nodes(self, cluster_id: str, nodes: Sequence[NodeSpec]) -> None:
        if not self.hang:
            super().apply_nodes(cluster_id, nodes)
            return
        super().apply_nodes(cluster_id, nodes[:1])
        self.reached.set()
        self.killed.wait(10)

    def end_of_process(self) -> None:
        self.hang = False
        self.killed.set()


async def test_pool_interrupted_half_way_is_finished_without_doubles(tmp_path: Path) -> None:
    plane = Halfway()
    async with running(tmp_path, plane=plane) as api:
        cluster = await made_cluster(api)
        plane.hang = True
        body = {"name": "p", "cluster_id": cluster, "count": 3, "product_name": "c1a.8x"}
        started = (await api.post(POOLS, body))["operation"]
        await asyncio.to_thread(plane.reached.wait, 10)
    plane.end_of_process()
    async with running(tmp_path, plane=plane) as api:
        ended = await poll(api, "kubernetes/nodepools", started["operation_id"])
        assert ended["state"] == "SUCCEEDED"
        [pool] = (await api.get(POOLS))["items"]
        assert (pool["state"], len(pool["instance_ids"])) == ("STATE_RUNNING", 3)
        assert len(plane.node_specs[cluster]) == 3


async def test_update_interrupted_half_way_is_finished_once(tmp_path: Path) -> None:
    plane = Halfway()
    async with running(tmp_path, plane=plane) as api:
        cluster = await made_cluster(api)
        body = {"name": "p", "cluster_id": cluster, "count": 2, "product_name": "c1a.8x", "node_labels": {"a": "1"}}
        operation = (await api.post(POOLS, body))["operation"]
        await poll(api, "kubernetes/nodepools", operation["operation_id"])
        [pool] = (await api.get(POOLS))["items"]
        plane.hang = True
        change = {"count": 3, "node_labels": {"a": "2"}}
        started = (await api.patch(f"{POOLS}/{pool['id']}", change))["operation"]
        await asyncio.to_thread(plane.reached.wait, 10)
        assert (await api.read_pool(pool["id"]))["state"] == "STATE_UPDATING"
    plane.end_of_process()
    async with running(tmp_path, plane=plane) as api:
        assert (await poll(api, "kubernetes/nodepools", started["operation_id"]))["state"] == "SUCCEEDED"
        read = await api.read_pool(pool["id"])
        assert len(read["instance_ids"]) == 3
        assert [row["using_latest_config"] for row in read["instance_details"]] == [False, False, True]


async def made_cluster(api: Api) -> str:
    body = {"name": "clu", "version": V1, "location": "us-east1-a"}
    started = (await api.post(CLUSTERS, body))["operation"]
    await poll(api, "kubernetes/clusters", started["operation_id"])
    [cluster] = (await api.get(CLUSTERS))["items"]
    return cluster["id"]


async def test_clusters_come_back_with_exactly_their_nodes(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        cluster = await api.cluster()
        pool = await api.pool(cluster)
        names = set(api.plane.node_specs[cluster])
        stray = next(iter(api.plane.node_specs[cluster].values()))
    plane = NoControlPlane()
    plane.node_specs[cluster] = {"np-stray-1": stray}
    async with running(tmp_path, plane=plane) as api:
        await api.post(f"{CLUSTERS}/{cluster}/get-credentials")
        assert plane.clusters[cluster].version == V1
        assert set(plane.node_specs[cluster]) == names
        assert await api.read_pool(pool["id"]) == pool


class SlowToReturn(NoControlPlane):
    """A control plane that takes its time to come back."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def ensure_running(self, cluster: ClusterSpec) -> None:
        time.sleep(0.2)
        super().ensure_running(cluster)
        self.order.append("back")

    def apply_nodes(self, cluster_id: str, nodes: Sequence[NodeSpec]) -> None:
        super().apply_nodes(cluster_id, nodes)
        self.order.append(f"{len(nodes)} nodes")


async def test_nothing_touches_a_cluster_before_it_is_back(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        cluster = await api.cluster()
    plane = SlowToReturn()
    async with running(tmp_path, plane=plane) as api:
        # The very first call after the start. One for another cluster need not wait.
        await api.cluster(name="other")
        assert plane.order == []
        await api.pool(cluster)
        assert plane.order == ["back", "0 nodes", "2 nodes"]


async def test_old_operations_expire(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        operation = (await api.post(DISKS, DISK))["operation"]
    async with running(tmp_path) as api:
        await api.get(f"{DISKS}/operations/{operation['operation_id']}")
        api.cloud.move_clock(25 * 3600.0)
    async with running(tmp_path) as api:
        api.cloud.move_clock(0.0)
        await api.refused(403, "GET", f"{DISKS}/operations/{operation['operation_id']}")


async def test_moved_clock_moves_no_operation(tmp_path: Path) -> None:
    async with running(tmp_path, seconds=0.05) as api:
        started = (await api.post(DISKS, DISK))["operation"]
        api.cloud.clock.offset = -3600.0
        await asyncio.sleep(0.2)
        found = api.cloud.operations.get(started["operation_id"])
        assert found is not None
        assert found.state == "SUCCEEDED"
