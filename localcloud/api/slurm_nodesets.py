"""Crusoe Managed Slurm: the node sets of its clusters.

A node set is a node pool of the CMK cluster behind the Slurm cluster, with one Slurm worker on each node. Only `count`
can change. The `count` that is answered is the number of nodes whose Slurm pods all run, never the number asked for:
nothing answers that one. What could not be started shows in `issues`. A lower count drains and deletes the newest
nodes.
"""

from typing import Annotated

from fastapi import APIRouter
from pydantic import StringConstraints

from localcloud import pools
from localcloud.api import kubernetes_nodepools
from localcloud.api.family import PROJECT, CloudDep, Family, Project, delete, existing, idle, insert
from localcloud.api.kubernetes_nodepools import Count, limits
from localcloud.api.slurm_clusters import (
    Issue,
    LabelName,
    State,
    fields_named,
    find_slurm_cluster,
    keep,
    mounts_home,
    running_slurm_cluster,
)
from localcloud.api.supply import known_vm_type
from localcloud.api.wire import Answer, Body, Started, absent
from localcloud.cloud import Cloud, new_id
from localcloud.errors import bad_request, name_taken, not_found
from localcloud.managed_slurm import state
from localcloud.managed_slurm.operator import look, present
from localcloud.operations import Operation, OperationFailedError, Work
from localcloud.store import Json, Object

OPERATIONS = "slurm/{slurm_cluster_id}/nodesets"
KIND = state.NODE_SET
# Pods of these names are the cluster's own.
_RESERVED = ("login", "controller")
_LONGEST_HOST_NAME = 63

router = APIRouter(prefix=f"{PROJECT}/{OPERATIONS}", tags=["Slurm node sets"])


class NodeSetCreate(Body):
    """A new node set."""

    name: Annotated[LabelName, StringConstraints(max_length=_LONGEST_HOST_NAME)]
    type: str
    count: Count
    subnet_id: str | None = None
    transport_partition_id: str | None = None
    vm_ssh_public_key: str | None = None


class NodeSetUpdate(Body):
    """The number of nodes that is wanted."""

    count: Count


class NodeSetView(Answer):
    """A node set. `count` is the number of nodes whose Slurm pods all run."""

    id: str
    name: str
    type: str
    count: int
    subnet_id: str
    transport_partition_id: str = absent()
    vm_ssh_public_key: str = absent()
    state: State
    issues: list[Issue]
    created_at: str
    updated_at: str


class NodeSetList(Answer):
    """Node sets."""

    items: list[NodeSetView]


@router.post("", response_model=Started)
async def create_nodeset(slurm_cluster_id: str, body: NodeSetCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a node set, as far as there are VMs for it."""
    slurm = running_slurm_cluster(cloud, project, slurm_cluster_id)
    idle(cloud, slurm)
    cluster = existing(cloud, pools.CLUSTER, slurm.hidden["cluster_id"])
    _name_fits(cloud, slurm, body.name, body.count)
    vm_type = known_vm_type(cloud, body.type, "type")
    if vm_type.gpu_vendor == "amd":
        raise bad_request(f"type: {vm_type.name} has AMD GPUs, and the clusters of Managed Slurm have NVIDIA's add-ons")
    mounts_home(vm_type, slurm.body["home_volume_size"], "type")
    wanted = kubernetes_nodepools.PoolCreate(
        name=f"{slurm.name}-{body.name}",
        product_name=body.type,
        count=body.count,
        cluster_id=cluster.id,
        node_labels={cloud.facts.slurm.compute_label: "true"},
        subnet_id=body.subnet_id,
        transport_partition_id=body.transport_partition_id,
        ssh_public_key=body.vm_ssh_public_key,
    )
    with fields_named({"product_name": "type", "ib_partition_id": "transport_partition_id"}):
        pool = kubernetes_nodepools.new_pool(cloud, project, wanted, cluster, vm_type)
    kubernetes_nodepools.pool_within_quota(cloud, project, vm_type, body.count)
    identifier, now = new_id(), cloud.clock.stamp()
    row: Json = {
        "id": identifier,
        "name": body.name,
        "type": body.type,
        "subnet_id": pool.body["subnet_id"],
        "state": state.PROVISIONING,
        "created_at": now,
        "updated_at": now,
        **body.model_dump(include={"transport_partition_id", "vm_ssh_public_key"}, exclude_none=True),
    }
    hidden: Json = {"pool_id": pool.id, "ready": 0, "settling": state.PROVISIONING, "issues": []}
    keep(slurm, pool)
    with cloud.store.transaction():
        insert(cloud, pool)
        name = f"{slurm.name}/{body.name}"
        insert(cloud, Object(KIND, identifier, project, name, row, parent_id=slurm.id, hidden=hidden))
        operation = cloud.operations.open(_operations(slurm.id), "slurm-nodeset.create", project, identifier, limits())
    return await cloud.operations.launch(operation)


@router.get("", response_model=NodeSetList)
async def list_nodesets(slurm_cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """The node sets of a Slurm cluster."""
    slurm = find_slurm_cluster(cloud, project, slurm_cluster_id)
    return {"items": [_view(cloud, item) for item in state.node_sets(cloud, slurm)]}


@router.get("/{nodeset_id}", response_model=NodeSetView)
async def get_nodeset(slurm_cluster_id: str, nodeset_id: str, project: Project, cloud: CloudDep) -> Json:
    """One node set."""
    return _view(cloud, _find(cloud, project, slurm_cluster_id, nodeset_id))


@router.patch("/{nodeset_id}", response_model=Started)
async def update_nodeset(
    slurm_cluster_id: str, nodeset_id: str, body: NodeSetUpdate, project: Project, cloud: CloudDep
) -> Json:
    """Change how many nodes are wanted. A lower number drains and deletes the newest ones."""
    item = _find(cloud, project, slurm_cluster_id, nodeset_id)
    slurm = running_slurm_cluster(cloud, project, slurm_cluster_id)
    idle(cloud, item)
    pool = state.pool_of(cloud, item)
    if item.body["state"] != state.RUNNING or pool is None:
        raise bad_request(f"Slurm node set {item.name} is not running ({item.body['state']}); delete it")
    _host_names_fit(slurm, item.body["name"], body.count)
    vm_type = cloud.facts.vm_types[item.body["type"]]
    more = body.count - len(pools.staying(cloud, pool))
    kubernetes_nodepools.pool_within_quota(cloud, project, vm_type, more)
    payload = {"count": body.count, "before": pool.body["count"], **limits()}
    with cloud.store.transaction():
        operation = cloud.operations.open(_operations(slurm.id), "slurm-nodeset.update", project, item.id, payload)
    return await cloud.operations.launch(operation)


@router.delete("/{nodeset_id}", response_model=Started)
async def delete_nodeset(slurm_cluster_id: str, nodeset_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a node set with its nodes; their jobs are not waited for."""
    item = _find(cloud, project, slurm_cluster_id, nodeset_id)
    return await delete(cloud, item, _operations(slurm_cluster_id), "slurm-nodeset.delete", None, state.DELETING)


def _operations(slurm_cluster_id: str) -> str:
    return OPERATIONS.format(slurm_cluster_id=slurm_cluster_id)


def _find(cloud: Cloud, project: str, slurm_cluster_id: str, identifier: str) -> Object:
    slurm = find_slurm_cluster(cloud, project, slurm_cluster_id)
    item = cloud.store.get(KIND, identifier)
    if item is None or item.parent_id != slurm.id:
        raise not_found("Slurm node set", identifier)
    return item


def _name_fits(cloud: Cloud, slurm: Object, name: str, count: int) -> None:
    if name in _RESERVED:
        raise bad_request(f"name: {name!r} is the name of pods of every Slurm cluster")
    if any(item.body["name"] == name for item in state.node_sets(cloud, slurm)):
        raise name_taken("Slurm node set", name)
    _host_names_fit(slurm, name, count)


def _host_names_fit(slurm: Object, name: str, count: int) -> None:
    last = f"{slurm.name}-{name}-{max(count - 1, 0)}"
    if len(last) > _LONGEST_HOST_NAME:
        raise bad_request(
            f"name: a node would be called {last}, and host names have at most {_LONGEST_HOST_NAME} characters"
        )


def _view(cloud: Cloud, item: Object) -> Json:
    now, issues = state.node_set_condition(cloud, item)
    return {**item.body, "count": item.hidden["ready"], "state": now, "issues": issues}


async def _create(cloud: Cloud, operation: Operation) -> None:
    item, pool = _parts(cloud, operation)
    with cloud.store.transaction():
        _fill(cloud, pool, operation)
    await pools.run(cloud, pool)
    with cloud.store.transaction():
        pools.running(cloud, pool)
        pool.body["state"] = "STATE_RUNNING"
        cloud.store.save(pool)
    await _look(cloud, item)


async def _update(cloud: Cloud, operation: Operation) -> None:
    item, pool = _parts(cloud, operation)
    with cloud.store.transaction():
        item.hidden["settling"] = state.UPDATING
        cloud.store.save(item)
        pool.body |= {"count": operation.payload["count"], "updated_at": cloud.clock.stamp()}
        _fill(cloud, pool, operation)
        leaving = pools.staying(cloud, pool)[pool.body["count"] :]
    await pools.drain_nodes(cloud, pool, leaving)
    with cloud.store.transaction():
        pools.remove(cloud, leaving)
    await pools.run(cloud, pool)
    with cloud.store.transaction():
        pools.running(cloud, pool)
    await _look(cloud, item)


async def _delete(cloud: Cloud, operation: Operation) -> None:
    item = existing(cloud, KIND, operation.resource_id)
    pool = state.pool_of(cloud, item)
    if pool is None:
        return
    with cloud.store.transaction():
        pool.body["state"] = "STATE_DELETING"
        cloud.store.save(pool)
    # Its workers go first: nothing would run them again on nodes that are left.
    await _look(cloud, item)
    await pools.drop_nodes(cloud, pool, pools.vms_of(cloud, pool))


def _settled(cloud: Cloud, operation: Operation) -> Json:
    item = existing(cloud, KIND, operation.resource_id)
    item.body |= {"state": state.RUNNING, "updated_at": cloud.clock.stamp()}
    cloud.store.save(item)
    cloud.journal.record("slurm.nodeset", item.id, name=item.name, work=operation.work)
    return _view(cloud, item)


def _deleted(cloud: Cloud, operation: Operation) -> None:
    item = existing(cloud, KIND, operation.resource_id)
    _remove_pool(cloud, item)
    cloud.store.remove(KIND, item.id)
    cloud.journal.record("slurm.nodeset_deleted", item.id, name=item.name)


def _not_created(cloud: Cloud, operation: Operation, failure: OperationFailedError) -> None:
    item = cloud.store.get(KIND, operation.resource_id)
    if item is not None:
        _remove_pool(cloud, item)
        state.fail(cloud, item, state.CREATE_FAILED, failure)


def _not_updated(cloud: Cloud, operation: Operation, _failure: OperationFailedError) -> None:
    item = cloud.store.get(KIND, operation.resource_id)
    pool = state.pool_of(cloud, item) if item else None
    if pool is None:
        return
    pools.remove(cloud, [vm for vm in pools.vms_of(cloud, pool) if vm.hidden["operation_id"] == operation.id])
    pool.body["count"] = operation.payload["before"]
    cloud.store.save(pool)
    # VMs that went before the failure come back.
    pools.refill(cloud, pool)


def _not_deleted(cloud: Cloud, operation: Operation, failure: OperationFailedError) -> None:
    item = cloud.store.get(KIND, operation.resource_id)
    if item is None:
        return
    state.fail(cloud, item, state.DELETE_FAILED, failure)
    if pool := state.pool_of(cloud, item):
        pool.body["state"] = "STATE_RUNNING"
        cloud.store.save(pool)


def _parts(cloud: Cloud, operation: Operation) -> tuple[Object, Object]:
    item = existing(cloud, KIND, operation.resource_id)
    return item, existing(cloud, pools.POOL, item.hidden["pool_id"])


def _fill(cloud: Cloud, pool: Object, operation: Operation) -> None:
    pool.hidden["shortfall"] = pools.fill(cloud, pool, operation.id, operation.payload["at_most"])
    cloud.store.save(pool)


def _remove_pool(cloud: Cloud, item: Object) -> None:
    if pool := state.pool_of(cloud, item):
        pools.remove(cloud, pools.vms_of(cloud, pool))
        cloud.store.remove(pools.POOL, pool.id)


async def _look(cloud: Cloud, item: Object) -> None:
    slurm = cloud.store.get(state.CLUSTER, item.parent_id or "")
    if slurm is not None and present(cloud, slurm):
        await look(cloud, slurm)


FAMILY = Family(
    router,
    OPERATIONS,
    {
        "slurm-nodeset.create": Work(_create, _settled, _not_created, uses_control_plane=True),
        "slurm-nodeset.update": Work(_update, _settled, _not_updated, uses_control_plane=True),
        "slurm-nodeset.delete": Work(_delete, _deleted, _not_deleted, uses_control_plane=True),
    },
)
