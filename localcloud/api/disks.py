"""Persistent and shared disks."""

import re
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AfterValidator

from localcloud.api.family import (
    PROJECT,
    CloudDep,
    Family,
    Project,
    change,
    delete,
    discard,
    existing,
    find,
    insert,
    known_location,
    not_kept,
    remover,
    updater,
)
from localcloud.api.supply import within_quota
from localcloud.api.wire import Answer, Body, Name, Started, absent
from localcloud.cloud import Cloud, new_id
from localcloud.errors import bad_request
from localcloud.operations import Operation, Work
from localcloud.store import Json, Object

OPERATIONS = "storage/disks"
KIND = "disk"
_TIB = 1024
# Smallest and largest size and step in GiB: disk documentation and CSI driver.
_SIZES = {"persistent-ssd": (1, 10 * _TIB, 1), "shared-volume": (_TIB, 1000 * _TIB, _TIB)}

router = APIRouter(prefix=f"{PROJECT}/storage/disks", tags=["Disks"])


def gib(size: str) -> int:
    """`"10TiB"` or `"512GiB"` in GiB; raises ValueError."""
    parts = re.fullmatch(r"([1-9]\d*)(GiB|TiB)", size)
    if parts is None:
        raise ValueError(f"{size!r} is not a whole number of GiB or TiB such as 512GiB")
    return int(parts[1]) * (_TIB if parts[2] == "TiB" else 1)


def _size(text: str) -> str:
    gib(text)
    return text


Size = Annotated[str, AfterValidator(_size)]


class DiskCreate(Body):
    """A new disk."""

    name: Name
    location: str
    type: Literal["persistent-ssd", "shared-volume"] = "persistent-ssd"
    size: Size
    block_size: Literal[512, 4096] = 4096
    snapshot_id: str | None = None


class DiskUpdate(Body):
    """A larger size."""

    size: Size


class Attachment(Answer):
    """A VM that uses a disk."""

    vm_id: str
    mode: str


class DiskView(Answer):
    """A disk; shared ones have addresses to mount from."""

    id: str
    name: str
    location: str
    type: str
    size: str
    block_size: int
    serial_number: str
    attached_to: list[Attachment]
    dns_name: str = absent()
    vips: list[str] = absent()
    created_at: str
    updated_at: str


class DiskList(Answer):
    """Disks."""

    items: list[DiskView]


@router.post("", response_model=Started)
async def create_disk(body: DiskCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a disk."""
    if body.snapshot_id is not None:
        raise bad_request(f"snapshot_id: there is no snapshot {body.snapshot_id} in this project")
    item = new_disk(cloud, project, body)
    with cloud.store.transaction():
        insert(cloud, item)
        operation = cloud.operations.open(OPERATIONS, "disk.create", project, item.id)
    return await cloud.operations.launch(operation)


@router.get("", response_model=DiskList)
async def list_disks(project: Project, cloud: CloudDep) -> Json:
    """The project's disks."""
    return {"items": [item.body for item in cloud.store.all(KIND, project)]}


@router.get("/{disk_id}", response_model=DiskView)
async def get_disk(disk_id: str, project: Project, cloud: CloudDep) -> Json:
    """One disk."""
    return find(cloud, KIND, project, disk_id, "disk").body


@router.patch("/{disk_id}", response_model=Started)
async def update_disk(disk_id: str, body: DiskUpdate, project: Project, cloud: CloudDep) -> Json:
    """Grow a disk."""
    item = find(cloud, KIND, project, disk_id, "disk")
    not_kept(item)
    size = _allowed(item.body["type"], body.size)
    if size < item.hidden["gib"]:
        raise bad_request(f"size: a disk can only grow, and disk {item.name} has {item.body['size']}")
    within_quota(cloud, project, item.body["type"], size - item.hidden["gib"])
    return await change(cloud, item, OPERATIONS, "disk.update", {"size": body.size, "gib": size})


@router.delete("/{disk_id}", response_model=Started)
async def delete_disk(disk_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a disk that no VM uses."""
    item = find(cloud, KIND, project, disk_id, "disk")
    not_kept(item)
    attached = item.body["attached_to"]
    in_use = bad_request(f"disk {item.name} is attached to VM {attached[0]['vm_id']}") if attached else None
    return await delete(cloud, item, OPERATIONS, "disk.delete", in_use)


def new_disk(cloud: Cloud, project: str, body: DiskCreate) -> Object:
    """A disk as it is kept, checked but not inserted; raises 400."""
    known_location(cloud, body.location)
    size = _allowed(body.type, body.size)
    within_quota(cloud, project, body.type, size)
    identifier, now = new_id(), cloud.clock.stamp()
    row: Json = {
        "id": identifier,
        **body.model_dump(exclude={"snapshot_id"}),
        "serial_number": identifier.replace("-", "")[:20].upper(),
        "attached_to": [],
        "created_at": now,
        "updated_at": now,
    }
    if body.type == "shared-volume":
        row |= {
            "dns_name": "nfs.crusoecloudcompute.com",
            "vips": list(cloud.facts.locations[body.location].nfs_vips),
        }
    return Object(KIND, identifier, project, body.name, row, hidden={"gib": size})


def _allowed(disk_type: str, size: str) -> int:
    smallest, largest, step = _SIZES[disk_type]
    wanted = gib(size)
    if not smallest <= wanted <= largest or wanted % step:
        raise bad_request(f"size: {size} does not fit {disk_type}: {smallest} to {largest} GiB in steps of {step} GiB")
    return wanted


def _created(cloud: Cloud, operation: Operation) -> Json:
    return existing(cloud, KIND, operation.resource_id).body


def _view(_cloud: Cloud, item: Object) -> Json:
    return item.body


def _grow(cloud: Cloud, item: Object, payload: Json) -> None:
    item.body |= {"size": payload["size"], "updated_at": cloud.clock.stamp()}
    item.hidden["gib"] = payload["gib"]


FAMILY = Family(
    router,
    OPERATIONS,
    {
        "disk.create": Work(settle=_created, undo=discard(KIND)),
        "disk.update": updater(KIND, _view, _grow),
        "disk.delete": remover(KIND),
    },
)
