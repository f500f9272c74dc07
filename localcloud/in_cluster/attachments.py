"""Which disk may be attached to which VM, and what both then show. Inside the caller's transaction.

Source of the limits: Crusoe's disk documentation and CSI driver. A persistent disk is read-write on one VM or read-only
on many, and 15 of them fit beside a VM's OS disk. A shared disk is read-write on many VMs, of CPU types and of GPU
types that own their host, four to a VM.
"""

from __future__ import annotations

from typing import Literal

from localcloud.cloud import Cloud
from localcloud.facts import VmType
from localcloud.store import Json, Object

DISK, VM = "disk", "vm"
Mode = Literal["read-write", "read-only"]
_MOST = {"persistent-ssd": 15, "shared-volume": 4}


class CannotAttachError(Exception):
    """A disk can't be attached to a VM; the text says why."""


def attach(cloud: Cloud, disk_id: str, vm_name: str, project_id: str, mode: Mode) -> None:
    """Attach a disk; nothing if it is. Raises CannotAttachError."""
    disk, vm = cloud.store.get(DISK, disk_id), cloud.store.named(VM, project_id, vm_name)
    if disk is None or disk.project_id != project_id:
        raise CannotAttachError(f"disk {disk_id} not found")
    if vm is None:
        raise CannotAttachError(f"instance {vm_name} not found")
    if any(entry["vm_id"] == vm.id for entry in disk.body["attached_to"]):
        return
    if reason := _refusal(disk, vm, cloud.facts.vm_types[vm.body["type"]], mode):
        raise CannotAttachError(f"disk {disk.name} can't be attached to instance {vm.name}: {reason}")
    disk.body["attached_to"].append({"vm_id": vm.id, "mode": mode})
    vm.body["disks"].append(
        {
            "id": disk.id,
            "name": disk.name,
            "type": disk.body["type"],
            "serial_number": disk.body["serial_number"],
            "attachment_type": "data",
            "mode": mode,
        }
    )
    cloud.store.save(disk)
    cloud.store.save(vm)
    cloud.journal.record("disk.attached", disk.id, vm=vm.id, mode=mode)


def detach(cloud: Cloud, disk_id: str, vm_id: str) -> None:
    """Detach a disk from a VM; nothing if it isn't attached."""
    disk, vm = cloud.store.get(DISK, disk_id), cloud.store.get(VM, vm_id)
    if disk is not None and any(entry["vm_id"] == vm_id for entry in disk.body["attached_to"]):
        disk.body["attached_to"] = [entry for entry in disk.body["attached_to"] if entry["vm_id"] != vm_id]
        cloud.store.save(disk)
        cloud.journal.record("disk.detached", disk_id, vm=vm_id)
    if vm is not None:
        vm.body["disks"] = [entry for entry in vm.body["disks"] if entry["id"] != disk_id]
        cloud.store.save(vm)


def detach_all(cloud: Cloud, vm: Object) -> None:
    """Detach every disk of a VM that ends."""
    for entry in vm.body["disks"]:
        detach(cloud, entry["id"], vm.id)


def _refusal(disk: Object, vm: Object, vm_type: VmType, mode: Mode) -> str | None:
    kind, users = disk.body["type"], disk.body["attached_to"]
    if disk.body["location"] != vm.body["location"]:
        return f"they are in different locations, {disk.body['location']} and {vm.body['location']}"
    if kind == "shared-volume" and vm_type.gpus and not vm_type.whole_host:
        return f"{vm_type.name} doesn't own its host, and only such GPU types mount shared disks"
    if kind == "persistent-ssd" and users and not (mode == "read-only" and _all_read_only(users)):
        return f"it is attached to instance {users[0]['vm_id']} already"
    if sum(entry["type"] == kind for entry in vm.body["disks"]) >= _MOST[kind]:
        return f"the instance has {_MOST[kind]} disks of type {kind} already, which is the most"
    return None


def _all_read_only(users: list[Json]) -> bool:
    return all(entry["mode"] == "read-only" for entry in users)
