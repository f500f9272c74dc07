"""What can be had: locations, VM types, capacities, quotas and reservations."""

from typing import Annotated

from fastapi import APIRouter, Query

from localcloud.api.family import PROJECT, Caller, CloudDep, Family, Project, known_location
from localcloud.api.organizations import own_organization
from localcloud.api.wire import Answer, Filters
from localcloud.cloud import Cloud
from localcloud.errors import bad_request
from localcloud.facts import VmType
from localcloud.store import Json

router = APIRouter(tags=["Supply"])


class LocationList(Answer):
    """Names of locations."""

    items: list[str]


class Capacity(Answer):
    """Stock of a VM type: `quantity` VMs can be started now, each taking `num_slices` of the quota `quota_type`."""

    location: str
    type: str
    quantity: int
    num_slices: int
    quota_type: str


class CapacityList(Answer):
    """Stock by location and type."""

    items: list[Capacity]


class QuotaView(Answer):
    """A quota, in slices of a VM family or GiB of a disk type."""

    name: str
    max: int
    used: int
    available: int


class QuotaList(Answer):
    """Quotas of a project or an organization."""

    items: list[QuotaView]


class VmTypeView(Answer):
    """A VM type."""

    product_name: str
    description: str
    cpu_cores: int
    cpu_type: str
    memory_gb: int
    memory_type: str
    disk_gb: int
    disk_type: str
    num_gpu: int
    gpu_type: str


class VmTypeList(Answer):
    """VM types."""

    items: list[VmTypeView]


class ReservationView(Answer):
    """Reserved VMs of one product line."""

    id: str
    reservation_type: str
    product_line: str
    quantity: int
    used_quantity: int
    locations: list[str]
    projects: list[str]
    vm_ids: list[str]


class ReservationList(Answer):
    """Reservations of the organization."""

    items: list[ReservationView]


class CapacityFilters(Filters):
    """Filters of the capacity list."""

    product_name: str | None = None
    location: str | None = None


@router.get("/locations", response_model=LocationList)
async def list_locations(cloud: CloudDep) -> Json:
    """Names of locations."""
    return {"items": sorted(cloud.facts.locations)}


@router.get("/capacities", response_model=CapacityList)
async def list_capacities(cloud: CloudDep, filters: Annotated[CapacityFilters, Query()]) -> Json:
    """Stock by location and type."""
    if filters.location:
        known_location(cloud, filters.location)
    if filters.product_name:
        known_vm_type(cloud, filters.product_name, "product_name")
    wanted = (("location", filters.location), ("type", filters.product_name))
    rows = cloud.inventory.capacities()
    return {"items": [row for row in rows if all(not value or row[key] == value for key, value in wanted)]}


@router.get(PROJECT + "/quotas", response_model=QuotaList)
async def list_project_quotas(project: Project, cloud: CloudDep) -> Json:
    """Quotas of the project."""
    return _quotas(cloud, project)


@router.get("/organizations/{organization_id}/quotas", response_model=QuotaList)
async def list_organization_quotas(organization_id: str, cloud: CloudDep, caller: Caller) -> Json:
    """Quotas of the organization, as far as the key's project uses them."""
    own_organization(cloud, organization_id)
    return _quotas(cloud, cloud.facts.projects[caller.project])


@router.get("/organizations/{organization_id}/reservations", response_model=ReservationList)
async def list_reservations(organization_id: str, cloud: CloudDep) -> Json:
    """Reservations of the organization."""
    own_organization(cloud, organization_id)
    items = [
        {
            "id": reservation.id,
            "reservation_type": "instance",
            "product_line": reservation.product_line,
            "quantity": reservation.quantity,
            "used_quantity": len(vm_ids := cloud.inventory.reservation_vms(reservation)),
            "locations": list(reservation.locations),
            "projects": [reservation.project_id],
            "vm_ids": vm_ids,
        }
        for reservation in cloud.facts.reservations.values()
    ]
    return {"items": items}


@router.get(PROJECT + "/compute/vms/types", response_model=VmTypeList)
async def list_vm_types(_project: Project, cloud: CloudDep) -> Json:
    """VM types."""
    return {"items": [_vm_type(vm_type) for vm_type in cloud.facts.vm_types.values()]}


def known_vm_type(cloud: Cloud, name: str, field_name: str) -> VmType:
    """A VM type by name; raises 400."""
    vm_type = cloud.facts.vm_types.get(name)
    if vm_type is None:
        raise bad_request(f"{field_name}: there is no VM type {name!r}; see GET .../compute/vms/types")
    return vm_type


def within_quota(cloud: Cloud, project_id: str, name: str, wanted: int) -> None:
    """Raises 400 naming the quota when `wanted` more of it (slices or GiB) isn't left."""
    quota = cloud.inventory.quota(project_id, name)
    if wanted > quota.available:
        taken = f"{quota.used} of {quota.maximum} used, {wanted} more needed"
        raise bad_request(f"quota {name} of project {project_id} is exceeded: {taken}", reason="quota_exceeded")


def _quotas(cloud: Cloud, project_id: str) -> Json:
    return {
        "items": [
            {"name": quota.name, "max": quota.maximum, "used": quota.used, "available": quota.available}
            for quota in cloud.inventory.quotas(project_id)
        ]
    }


def _vm_type(vm_type: VmType) -> Json:
    gpus = f", {vm_type.gpus} x {vm_type.gpu_model}" if vm_type.gpus else ""
    return {
        "product_name": vm_type.name,
        "description": f"{vm_type.cpu} vCPU, {vm_type.memory_gb} GB{gpus}",
        "cpu_cores": vm_type.cpu,
        "cpu_type": vm_type.cpu_type,
        "memory_gb": vm_type.memory_gb,
        "memory_type": "ddr4",
        "disk_gb": vm_type.disk_gb,
        "disk_type": "nvme" if vm_type.disk_gb else "",
        "num_gpu": vm_type.gpus,
        "gpu_type": vm_type.gpu_model or "",
    }


FAMILY = Family(router)
