"""VM instances: read, and deleted by hand.

On CMK v1 this is how a pool shrinks: lower its count, drain a node, delete its VM. A VM whose pool still counts it is
replaced.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from localcloud import pools
from localcloud.api.family import PROJECT, CloudDep, Family, Project, delete, find, restore
from localcloud.api.wire import Answer, Filters, Started, absent
from localcloud.cloud import Cloud
from localcloud.operations import Operation, Work
from localcloud.store import Json, Object

OPERATIONS = "compute/vms/instances"
KIND = pools.VM

router = APIRouter(prefix=f"{PROJECT}/compute/vms/instances", tags=["VM instances"])


class VmView(Answer):
    """A VM."""

    id: str
    name: str
    project_id: str
    type: str
    state: str
    location: str
    disks: list[dict[str, Any]]
    network_interfaces: list[dict[str, Any]]
    host_channel_adapters: list[dict[str, Any]]
    maintenance_policy: str
    reservation_id: str
    nvlink_domain_id: str = absent()
    pod_id: str = absent()
    created_at: str


class VmList(Answer):
    """VMs."""

    items: list[VmView]


class VmFilters(Filters):
    """Filters of the VM list."""

    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()


@router.get("", response_model=VmList)
async def list_vms(project: Project, cloud: CloudDep, filters: Annotated[VmFilters, Query()]) -> Json:
    """The project's VMs."""
    wanted = {
        "id": filters.ids,
        "name": filters.names,
        "type": filters.types,
        "state": filters.states,
        "location": filters.locations,
    }
    rows = (vm.body for vm in cloud.store.all(KIND, project))
    return {"items": [row for row in rows if all(not values or row[key] in values for key, values in wanted.items())]}


@router.get("/{vm_id}", response_model=VmView)
async def get_vm(vm_id: str, project: Project, cloud: CloudDep) -> Json:
    """One VM."""
    return find(cloud, KIND, project, vm_id, "VM").body


@router.delete("/{vm_id}", response_model=Started)
async def delete_vm(vm_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a VM. Its node is not drained."""
    return await delete(cloud, find(cloud, KIND, project, vm_id, "VM"), OPERATIONS, "vm.delete", None)


def pool_of(cloud: Cloud, vm: Object) -> Object | None:
    """The node pool that a VM belongs to."""
    return cloud.store.get(pools.POOL, vm.parent_id or "")


async def _delete(cloud: Cloud, operation: Operation) -> None:
    vm = cloud.store.get(KIND, operation.resource_id)
    pool = pool_of(cloud, vm) if vm else None
    if vm is not None and pool is not None:
        await pools.drop_nodes(cloud, pool, [vm])


def _deleted(cloud: Cloud, operation: Operation) -> None:
    vm = cloud.store.get(KIND, operation.resource_id)
    if vm is None:
        return
    pools.remove(cloud, [vm])
    if pool := pool_of(cloud, vm):
        pools.refill(cloud, pool)


FAMILY = Family(router, OPERATIONS, {"vm.delete": Work(_delete, _deleted, restore(KIND), uses_control_plane=True)})
