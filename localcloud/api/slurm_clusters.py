"""Crusoe Managed Slurm: its clusters.

A Slurm cluster is backed by a CMK cluster of the same name, a node pool for its controller and login nodes and a shared
disk for /home. All three are made and deleted with it, can be seen in their own families, and are changed nowhere else.
There is no update. A call that succeeded may be followed by `PROVISIONING` for a while, and a failed one leaves the
object in `CREATE_FAILED` or `DELETE_FAILED` with `issues` until it is deleted.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field, StringConstraints

from localcloud import pools
from localcloud.api import disks, kubernetes_clusters, kubernetes_nodepools
from localcloud.api.family import (
    PROJECT,
    CloudDep,
    Family,
    Project,
    delete,
    existing,
    find,
    insert,
)
from localcloud.api.kubernetes_nodepools import limits
from localcloud.api.supply import known_vm_type
from localcloud.api.wire import Answer, Body, Filters, Started
from localcloud.cloud import Cloud, new_id
from localcloud.control_plane import ControlPlaneError
from localcloud.errors import ApiError, bad_request
from localcloud.facts import VmType
from localcloud.managed_slurm import state
from localcloud.managed_slurm.operator import look, present
from localcloud.operations import Operation, OperationFailedError, Work
from localcloud.store import Json, Object

OPERATIONS = "slurm/clusters"
KIND = state.CLUSTER
# Slinky gives a Controller of a longer name no pod, and this one is called `slurm-<cluster>`.
_LONGEST_NAME = 35
_QUANTITY = re.compile(r"([1-9]\d*)(Gi|Ti|Pi)")
_GIB = {"Gi": 1, "Ti": 1024, "Pi": 1024**2}
_KEY = re.compile(r"(ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/=]+( .*)?")

router = APIRouter(prefix=f"{PROJECT}/slurm/clusters", tags=["Slurm clusters"])


def _public_key(text: str) -> str:
    if not _KEY.fullmatch(text.strip()):
        raise ValueError("this is not an SSH public key such as 'ssh-ed25519 AAAA... name'")
    return text


def _home(text: str) -> str:
    if text and not _QUANTITY.fullmatch(text):
        raise ValueError(f"{text!r} is not a size such as 10Ti, or empty for no shared home")
    return text


LabelName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
PublicKey = Annotated[str, AfterValidator(_public_key)]


class SlurmCreate(Body):
    """A new Slurm cluster. `internal_config` is for Crusoe's own use and changes nothing."""

    name: Annotated[LabelName, StringConstraints(max_length=_LONGEST_NAME)]
    location: str
    root_ssh_pub_keys: Annotated[list[PublicKey], Field(min_length=1)]
    subnet_id: str | None = None
    login_node_type: str | None = None
    login_replicas: Annotated[int, Field(ge=1)] | None = None
    home_volume_size: Annotated[str, AfterValidator(_home)] | None = None
    internal_config: dict[str, str] | None = None


class Issue(Answer):
    """Something that keeps a Slurm cluster or node set from being whole."""

    code: str
    message: str


State = Literal[
    "PROVISIONING",
    "RUNNING",
    "UPDATING",
    "UNHEALTHY",
    "DELETING",
    "CREATE_FAILED",
    "DELETE_FAILED",
    "DELETED",
    "FAILED",
]


class SlurmView(Answer):
    """A Slurm cluster. `login_node_endpoint` is an IP, empty until there is one; `nodesets` are ids."""

    id: str
    name: str
    location: str
    subnet_id: str
    version: str
    root_ssh_pub_keys: list[str]
    login_node_type: str
    login_replicas: int
    login_node_endpoint: str
    home_volume_size: str
    nodesets: list[str]
    state: State
    issues: list[Issue]
    created_at: str
    updated_at: str


class SlurmList(Answer):
    """Slurm clusters."""

    items: list[SlurmView]


class SlurmFilters(Filters):
    """Filters of the list of Slurm clusters."""

    names: tuple[str, ...] = ()
    location: str | None = None
    state: str | None = None
    slurm_cluster_ids: tuple[str, ...] = ()


@router.post("", response_model=Started)
async def create_slurm_cluster(body: SlurmCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a Slurm cluster with the CMK cluster behind it."""
    facts = cloud.facts.slurm
    login_type = known_vm_type(cloud, body.login_node_type or facts.login_node_type, "login_node_type")
    replicas = body.login_replicas or facts.login_replicas
    home = facts.home_volume_size if body.home_volume_size is None else body.home_volume_size
    mounts_home(login_type, home, "login_node_type")
    cluster = kubernetes_clusters.new_cluster(
        cloud, project, _cluster_body(cloud, body), cloud.facts.cluster_versions[facts.cluster_version]
    )
    # One node for the controller, and one for each login pod.
    wanted = kubernetes_nodepools.PoolCreate(
        name=f"{body.name}-login", product_name=login_type.name, count=1 + replicas, cluster_id=cluster.id
    )
    with fields_named({"product_name": "login_node_type", "ib_partition_id": "login_node_type"}):
        pool = kubernetes_nodepools.new_pool(cloud, project, wanted, cluster, login_type)
    kubernetes_nodepools.pool_within_quota(cloud, project, login_type, wanted.count)
    disk = _home_disk(cloud, project, body, home)
    identifier, now = new_id(), cloud.clock.stamp()
    row: Json = {
        "id": identifier,
        "name": body.name,
        "location": body.location,
        "subnet_id": cluster.body["subnet_id"],
        "version": facts.version,
        "root_ssh_pub_keys": body.root_ssh_pub_keys,
        "login_node_type": login_type.name,
        "login_replicas": replicas,
        "home_volume_size": home,
        "state": state.PROVISIONING,
        "created_at": now,
        "updated_at": now,
    }
    hidden: Json = {
        "cluster_id": cluster.id,
        "pool_id": pool.id,
        "disk_id": disk.id if disk else "",
        "seen": state.NOTHING_SEEN,
        "was_up": False,
        "issues": [],
    }
    with cloud.store.transaction():
        slurm = insert(cloud, Object(KIND, identifier, project, body.name, row, hidden=hidden))
        for item in (cluster, pool, disk):
            if item is not None:
                keep(slurm, item)
                insert(cloud, item)
        operation = cloud.operations.open(OPERATIONS, "slurm-cluster.create", project, identifier, limits())
    return await cloud.operations.launch(operation)


@router.get("", response_model=SlurmList)
async def list_slurm_clusters(project: Project, cloud: CloudDep, filters: Annotated[SlurmFilters, Query()]) -> Json:
    """The project's Slurm clusters."""

    def wanted(row: Json) -> bool:
        return (
            (not filters.names or row["name"] in filters.names)
            and filters.location in (None, "", row["location"])
            and filters.state in (None, "", row["state"])
            and (not filters.slurm_cluster_ids or row["id"] in filters.slurm_cluster_ids)
        )

    rows = [_view(cloud, item) for item in cloud.store.all(KIND, project)]
    return {"items": [row for row in rows if wanted(row)]}


@router.get("/{slurm_cluster_id}", response_model=SlurmView)
async def get_slurm_cluster(slurm_cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """One Slurm cluster."""
    return _view(cloud, find_slurm_cluster(cloud, project, slurm_cluster_id))


@router.delete("/{slurm_cluster_id}", response_model=Started)
async def delete_slurm_cluster(slurm_cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a Slurm cluster without node sets, with the CMK cluster behind it and its /home."""
    item = find_slurm_cluster(cloud, project, slurm_cluster_id)
    return await delete(cloud, item, OPERATIONS, "slurm-cluster.delete", _in_use(cloud, item), state.DELETING)


def find_slurm_cluster(cloud: Cloud, project_id: str, identifier: str) -> Object:
    """A Slurm cluster of the project; raises 404."""
    return find(cloud, KIND, project_id, identifier, "Slurm cluster")


def keep(slurm: Object, item: Object) -> None:
    """Mark an object as one that belongs to a Slurm cluster."""
    item.hidden["slurm_cluster"] = slurm.name


@contextmanager
def fields_named(names: Mapping[str, str]) -> Generator[None]:
    """Have refusals speak of the fields of this call, and not of those of the call whose checks it borrows."""
    try:
        yield
    except ApiError as error:
        field, _, rest = error.message.partition(": ")
        if field in names:
            error.message = f"{names[field]}: {rest}"
        raise


def mounts_home(vm_type: VmType, home: str, field_name: str) -> None:
    """Raises 400 for a type that can't mount the shared /home of a cluster that has one.

    Shared disks mount on CPU types and on GPU types that own their host (Crusoe's CSI driver).
    """
    if home and vm_type.gpus and not vm_type.whole_host:
        raise bad_request(
            f"{field_name}: {vm_type.name} shares its host, and can't mount the shared /home; take a type that owns its"
            " host, or a cluster with an empty home_volume_size"
        )


def _cluster_body(cloud: Cloud, body: SlurmCreate) -> kubernetes_clusters.ClusterCreate:
    facts = cloud.facts.slurm
    return kubernetes_clusters.ClusterCreate(
        name=body.name,
        location=body.location,
        version=facts.cluster_version,
        add_ons=list(facts.cluster_add_ons),
        subnet_id=body.subnet_id,
    )


def _home_disk(cloud: Cloud, project: str, body: SlurmCreate, home: str) -> Object | None:
    match = _QUANTITY.fullmatch(home)
    if match is None:
        return None
    size = f"{int(match[1]) * _GIB[match[2]]}GiB"
    wanted = disks.DiskCreate(name=f"{body.name}-home", location=body.location, type="shared-volume", size=size)
    with fields_named({"size": "home_volume_size"}):
        return disks.new_disk(cloud, project, wanted)


def _in_use(cloud: Cloud, item: Object) -> ApiError | None:
    names = [child.body["name"] for child in state.node_sets(cloud, item)]
    if names:
        return bad_request(f"Slurm cluster {item.name} still has node sets ({', '.join(names)})")
    foreign = [
        pool.name
        for pool in cloud.store.all(pools.POOL, parent_id=item.hidden["cluster_id"])
        if "slurm_cluster" not in pool.hidden
    ]
    if foreign:
        return bad_request(f"the Kubernetes cluster of {item.name} has node pools of others ({', '.join(foreign)})")
    return None


def _view(cloud: Cloud, item: Object) -> Json:
    now, issues = state.cluster_condition(item)
    return {
        **item.body,
        "login_node_endpoint": item.hidden["seen"]["login_endpoint"],
        "nodesets": [child.id for child in state.node_sets(cloud, item)],
        "state": now,
        "issues": issues,
    }


async def _create(cloud: Cloud, operation: Operation) -> None:
    slurm = existing(cloud, KIND, operation.resource_id)
    try:
        await _bring_up(cloud, operation, slurm)
    except (OperationFailedError, ControlPlaneError):
        await cloud.planes.delete(slurm.hidden["cluster_id"])
        raise


async def _bring_up(cloud: Cloud, operation: Operation, slurm: Object) -> None:
    cluster = existing(cloud, pools.CLUSTER, slurm.hidden["cluster_id"])
    await kubernetes_clusters.bring_up(cloud, cluster)
    with cloud.store.transaction():
        kubernetes_clusters.came_up(cloud, cluster)
        pool = existing(cloud, pools.POOL, slurm.hidden["pool_id"])
        shortfall = pools.fill(cloud, pool, operation.id, operation.payload["at_most"])
    if shortfall:
        raise OperationFailedError(f"controller and login nodes: {shortfall}", "insufficient_capacity")
    await pools.run(cloud, pool)
    with cloud.store.transaction():
        pools.running(cloud, pool)
        pool.body["state"] = "STATE_RUNNING"
        cloud.store.save(pool)
    await look(cloud, slurm)


def _created(cloud: Cloud, operation: Operation) -> Json:
    slurm = existing(cloud, KIND, operation.resource_id)
    slurm.body["state"] = state.RUNNING
    cloud.store.save(slurm)
    cloud.journal.record("slurm.created", slurm.id, name=slurm.name)
    return _view(cloud, slurm)


def _not_created(cloud: Cloud, operation: Operation, failure: OperationFailedError) -> None:
    slurm = cloud.store.get(KIND, operation.resource_id)
    if slurm is not None:
        _remove_parts(cloud, slurm)
        state.fail(cloud, slurm, state.CREATE_FAILED, failure)


async def _delete(cloud: Cloud, operation: Operation) -> None:
    slurm = existing(cloud, KIND, operation.resource_id)
    with cloud.store.transaction():
        if cluster := state.kubernetes_cluster(cloud, slurm):
            cluster.body["state"] = "STATE_DELETING"
            cloud.store.save(cluster)
    await cloud.planes.delete(slurm.hidden["cluster_id"])


def _deleted(cloud: Cloud, operation: Operation) -> None:
    slurm = existing(cloud, KIND, operation.resource_id)
    _remove_parts(cloud, slurm)
    cloud.store.remove(KIND, slurm.id)
    cloud.journal.record("slurm.deleted", slurm.id, name=slurm.name)


def _remove_parts(cloud: Cloud, slurm: Object) -> None:
    if pool := state.pool_of(cloud, slurm):
        pools.remove(cloud, pools.vms_of(cloud, pool))
        cloud.store.remove(pools.POOL, pool.id)
    # What the cluster's load balancer controller made for the login Service; there is no cluster left to undo it in.
    for item in state.login_parts(cloud, slurm):
        cloud.store.remove(item.kind, item.id)
    cloud.store.remove(disks.KIND, slurm.hidden["disk_id"])
    kubernetes_clusters.ended(cloud, slurm.project_id, slurm.hidden["cluster_id"])


def _not_deleted(cloud: Cloud, operation: Operation, failure: OperationFailedError) -> None:
    slurm = cloud.store.get(KIND, operation.resource_id)
    if slurm is not None:
        state.fail(cloud, slurm, state.DELETE_FAILED, failure)


def running_slurm_cluster(cloud: Cloud, project_id: str, identifier: str) -> Object:
    """A Slurm cluster whose Kubernetes cluster runs; raises 404, or 400 while it is being made or deleted."""
    item = find_slurm_cluster(cloud, project_id, identifier)
    if item.body["state"] != state.RUNNING or not present(cloud, item):
        raise bad_request(f"Slurm cluster {item.name} is not running ({state.cluster_condition(item)[0]})")
    return item


FAMILY = Family(
    router,
    OPERATIONS,
    {
        "slurm-cluster.create": Work(_create, _created, _not_created, uses_control_plane=True),
        "slurm-cluster.delete": Work(_delete, _deleted, _not_deleted, uses_control_plane=True),
    },
)
