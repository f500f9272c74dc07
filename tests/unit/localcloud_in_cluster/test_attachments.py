"""Which disks may be attached to which VMs, and what the REST API then shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from localcloud.in_cluster.attachments import CannotAttachError, Mode, attach, detach
from tests.unit.localcloud.conftest import OTHER, PROJECT, Api, running, succeeded


class Yard:
    """VMs and disks of one project."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.count = 0

    async def disk(self, kind: str = "persistent-ssd", location: str = "us-east1-a") -> str:
        self.count += 1
        body = {"name": f"disk-{self.count}", "location": location, "type": kind, "size": "1TiB"}
        return succeeded(await self.api.post("{p}/storage/disks", body))["id"]

    async def vms(self, vm_type: str = "c1a.8x", count: int = 2) -> list[dict[str, Any]]:
        found = await self.api.get("{p}/kubernetes/clusters")
        cluster = found["items"][0]["id"] if found["items"] else await self.api.cluster()
        pool = await self.api.pool(cluster, name=vm_type.replace(".", "-"), count=count, product_name=vm_type)
        vms = (await self.api.get("{p}/compute/vms/instances"))["items"]
        return [vm for vm in vms if vm["name"].startswith(f"np-{pool['id'][:8]}")]

    def attach(self, disk: str, vm: dict[str, Any], mode: Mode = "read-write", project: str = PROJECT) -> None:
        attach(self.api.cloud, disk, vm["name"], project, mode)

    async def attached(self, disk: str) -> list[str]:
        return [entry["vm_id"] for entry in (await self.api.get("{p}/storage/disks/" + disk))["attached_to"]]


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncGenerator[Yard]:
    async with running(tmp_path) as api:
        yield Yard(api)


async def test_disk_and_vm_both_show_it(yard: Yard) -> None:
    [vm, _], disk = await yard.vms(), await yard.disk()
    yard.attach(disk, vm)
    yard.attach(disk, vm)
    assert await yard.attached(disk) == [vm["id"]]
    shown = await yard.api.get("{p}/compute/vms/instances/" + vm["id"])
    assert [(entry["id"], entry["mode"]) for entry in shown["disks"]] == [(disk, "read-write")]
    assert "attached" in await yard.api.refused(400, "DELETE", "{p}/storage/disks/" + disk)
    detach(yard.api.cloud, disk, vm["id"])
    detach(yard.api.cloud, disk, vm["id"])
    assert await yard.attached(disk) == []
    assert (await yard.api.get("{p}/compute/vms/instances/" + vm["id"]))["disks"] == []


async def test_a_persistent_disk_is_written_by_one_vm_or_read_by_many(yard: Yard) -> None:
    [one, other], written, read = await yard.vms(), await yard.disk(), await yard.disk()
    yard.attach(written, one)
    for mode in ("read-write", "read-only"):
        with pytest.raises(CannotAttachError, match=r"attached to instance .* already"):
            yard.attach(written, other, mode)
    yard.attach(read, one, "read-only")
    yard.attach(read, other, "read-only")
    assert await yard.attached(read) == [one["id"], other["id"]]


async def test_a_shared_disk_is_written_by_many_but_by_no_part_of_a_gpu_host(yard: Yard) -> None:
    disk = await yard.disk("shared-volume")
    [one, other], [part] = await yard.vms(), await yard.vms("l40s-48gb.8x", 1)
    [whole] = await yard.vms("l40s-48gb.10x", 1)
    for vm in (one, other, whole):
        yard.attach(disk, vm)
    with pytest.raises(CannotAttachError, match="doesn't own its host"):
        yard.attach(disk, part)
    assert len(await yard.attached(disk)) == 3


@pytest.mark.parametrize(("kind", "most"), [("persistent-ssd", 15), ("shared-volume", 4)])
async def test_a_vm_takes_so_many_disks(yard: Yard, kind: str, most: int) -> None:
    [vm] = await yard.vms(count=1)
    for _ in range(most):
        yard.attach(await yard.disk(kind), vm)
    with pytest.raises(CannotAttachError, match=f"{most} disks of type {kind}"):
        yard.attach(await yard.disk(kind), vm)


async def test_what_can_not_be_attached(yard: Yard) -> None:
    [vm], disk = await yard.vms(count=1), await yard.disk()
    with pytest.raises(CannotAttachError, match="different locations"):
        yard.attach(await yard.disk(location="eu-iceland1-a"), vm)
    with pytest.raises(CannotAttachError, match="disk unknown not found"):
        yard.attach("unknown", vm)
    with pytest.raises(CannotAttachError, match="instance gone not found"):
        yard.attach(disk, {"name": "gone"})
    with pytest.raises(CannotAttachError, match="not found"):
        yard.attach(disk, vm, project=OTHER)


async def test_a_vm_that_is_deleted_lets_its_disks_go(yard: Yard) -> None:
    [vm], disk = await yard.vms(count=1), await yard.disk()
    yard.attach(disk, vm)
    succeeded(await yard.api.delete("{p}/compute/vms/instances/" + vm["id"]))
    assert await yard.attached(disk) == []
    assert succeeded(await yard.api.delete("{p}/storage/disks/" + disk)) is None
