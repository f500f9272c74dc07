"""Node pools of both CMK generations.

Creating and growing are best effort: a pool always answers the `count` that was asked for, and what could not be
started shows in the operation's `details` and in `instance_ids` (on CMK v2 also in `health`). Lowering `count` deletes
nothing, except on CMK v2 with `update_settings.allow_scale_down`, which drains and deletes the newest nodes. The result
of an update shows the pool as it was before; read it again to see the change.
"""

import asyncio
import re
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field, model_validator

from localcloud import faults, pools
from localcloud.api import ib, vpc_subnets
from localcloud.api.compute import VmList
from localcloud.api.family import (
    PROJECT,
    CloudDep,
    Family,
    Project,
    delete,
    discard,
    existing,
    find,
    idle,
    insert,
    not_kept,
    refer,
    restore,
)
from localcloud.api.kubernetes_clusters import only_generation, running_cluster
from localcloud.api.kubernetes_versions import fitting_pool_version, newest_pool_version
from localcloud.api.supply import known_vm_type, within_quota
from localcloud.api.wire import Answer, Body, Filters, Name, Started, absent
from localcloud.cloud import Cloud, new_id
from localcloud.errors import bad_request
from localcloud.facts import VmType
from localcloud.operations import IN_PROGRESS, Operation, OperationFailedError, Work
from localcloud.store import Json, Object

OPERATIONS = pools.OPERATIONS
KIND = pools.POOL
_MOST_TAINTS = 50
_LARGEST_BATCH = 10
_RESERVED_PREFIX = "crusoe.ai/"
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
)

router = APIRouter(prefix=f"{PROJECT}/kubernetes/nodepools", tags=["Node pools"])


def _label_key(text: str) -> str:
    if not _LABEL_KEY.fullmatch(text):
        raise ValueError(f"{text!r} is not a Kubernetes label key")
    if text.startswith(_RESERVED_PREFIX):
        raise ValueError(f"{text!r} begins with {_RESERVED_PREFIX}, which is reserved")
    return text


def _label_value(text: str) -> str:
    if len(text) > 63 or not _LABEL_VALUE.fullmatch(text):
        raise ValueError(f"{text!r} is not a Kubernetes label value")
    return text


LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
Labels = dict[LabelKey, LabelValue]
Count = Annotated[int, Field(ge=0)]


class Taint(Body):
    """A node taint."""

    key: LabelKey
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


def _unique(taints: list[Taint]) -> list[Taint]:
    pairs = [(taint.key, taint.effect) for taint in taints]
    for key, effect in pairs:
        if pairs.count((key, effect)) > 1:
            raise ValueError(f"key {key} with effect {effect} is given twice")
    return taints


Taints = Annotated[list[Taint], Field(max_length=_MOST_TAINTS), AfterValidator(_unique)]


class ReservationSpecification(Body):
    """Which reservation the VMs go into."""

    id: str | None = None
    selection_strategy: Literal["lowest_cost", "on_demand"] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.id is None) == (self.selection_strategy is None):
            raise ValueError("exactly one of id and selection_strategy is needed")
        return self


class Autoscaling(Body):
    """Bounds within which the autoscaler moves the count (CMK v2)."""

    enabled: bool
    min_node_size: Count = 0
    max_node_size: Count = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.enabled and not (self.min_node_size <= self.max_node_size and self.max_node_size > 0):
            raise ValueError("max_node_size must be at least 1 and not below min_node_size")
        return self


class UpdateSettings(Body):
    """What a lowered count may do (CMK v2)."""

    allow_scale_down: bool = False


ConsentMode = Literal["auto", "propose", "off"]


class PoolCreate(Body):
    """A new node pool."""

    name: Name
    product_name: str
    count: Count
    cluster_id: str
    node_labels: Labels | None = None
    node_taints: Taints | None = None
    node_pool_version: str | None = None
    ssh_public_key: str | None = None
    subnet_id: str | None = None
    ib_partition_id: str | None = None
    transport_partition_id: str | None = None
    nvlink_domain_id: str | None = None
    public_ip_type: Literal["dynamic", "static", "none"] = "dynamic"
    ephemeral_storage_for_containerd: bool = False
    placement_policy: Literal["spread", "unspecified"] = "unspecified"
    reservation_specification: ReservationSpecification | None = None
    autoscaling_config: Autoscaling | None = None
    consent_mode: ConsentMode | None = None
    update_settings: UpdateSettings | None = None


class PoolUpdate(Body):
    """What may change. Absent and null keep; so does an empty text, except that an empty SSH key is a lost one."""

    action: Literal["", "UPDATE", "RESERVE", "UNRESERVE"] | None = None
    count: Count | None = None
    node_labels: Labels | None = None
    node_taints: Taints | None = None
    ephemeral_storage_for_containerd: bool | None = None
    node_pool_version: str | None = None
    reservation_id: str | None = None
    ssh_public_key: str | None = None
    autoscaling_config: Autoscaling | None = None
    consent_mode: ConsentMode | None = None
    update_settings: UpdateSettings | None = None


V2_ONLY = ("autoscaling_config", "consent_mode", "update_settings")


class TaintView(Answer):
    """A node taint."""

    key: str
    value: str = absent()
    effect: str


class InstanceDetail(Answer):
    """Whether a VM was started with the pool's present configuration."""

    id: str
    using_latest_config: bool


class AutoscalingView(Answer):
    """Bounds of the autoscaler."""

    enabled: bool
    min_node_size: int
    max_node_size: int


class UpdateSettingsView(Answer):
    """What a lowered count may do."""

    allow_scale_down: bool


class HealthIssue(Answer):
    """Something that keeps the pool from being whole."""

    code: str
    message: str
    since: str
    affected_count: int
    affected_node_ids: list[str]


class Health(Answer):
    """Issues of a pool (CMK v2)."""

    issues: list[HealthIssue]


class PoolView(Answer):
    """A node pool. `image_id` is its version, `node_labels` includes those of the platform."""

    id: str
    name: str
    type: str
    count: int
    project_id: str
    cluster_id: str
    subnet_id: str
    image_id: str
    node_labels: dict[str, str]
    node_taints: list[TaintView]
    instance_ids: list[str]
    instance_details: list[InstanceDetail]
    state: str
    public_ip_type: str
    reservation_id: str
    nvlink_domain_id: str = absent()
    ephemeral_storage_for_containerd: bool
    created_at: str
    updated_at: str
    autoscaling_config: AutoscalingView = absent()
    consent_mode: str = absent()
    update_settings: UpdateSettingsView = absent()
    current: int = absent()
    health: Health = absent()


class PoolList(Answer):
    """Node pools."""

    items: list[PoolView]


class PoolFilters(Filters):
    """Filters of the pool list."""

    cluster_id: str | None = None


class Rotate(Body):
    """How a rotation goes about it. Clients write the strategy in either case and send both numbers."""

    strategy: Literal["count", "percentage", "COUNT", "PERCENTAGE"]
    count: Count = 0
    percentage: Annotated[int, Field(ge=0, le=100)] = 0


class RotationView(Answer):
    """A rotation's state and the VMs that are behind the pool's configuration."""

    state: str
    out_of_sync_instances: list[str]


class RotationCancelled(Answer):
    """Whether there was nothing to cancel."""

    no_rotate_in_progress: bool


@router.post("", response_model=Started)
async def create_pool(body: PoolCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a node pool, as far as there are VMs for it."""
    if cloud.store.get(pools.CLUSTER, body.cluster_id) is None:
        raise bad_request(f"cluster_id: there is no Kubernetes cluster {body.cluster_id} in this project")
    cluster = running_cluster(cloud, project, body.cluster_id)
    idle(cloud, cluster)
    vm_type = known_vm_type(cloud, body.product_name, "product_name")
    item = new_pool(cloud, project, body, cluster, vm_type)
    pool_within_quota(cloud, project, vm_type, body.count)
    with cloud.store.transaction():
        insert(cloud, item)
        operation = cloud.operations.open(OPERATIONS, "nodepool.create", project, item.id, limits())
    return await cloud.operations.launch(operation)


@router.get("", response_model=PoolList)
async def list_pools(project: Project, cloud: CloudDep, filters: Annotated[PoolFilters, Query()]) -> Json:
    """The project's node pools."""
    found = cloud.store.all(KIND, project, filters.cluster_id or None)
    members = pools.members(cloud, project_id=project)
    return {"items": [_view(cloud, item, members.get(item.id, [])) for item in found]}


@router.get("/{pool_id}", response_model=PoolView)
async def get_pool(pool_id: str, project: Project, cloud: CloudDep) -> Json:
    """One node pool."""
    return view(cloud, find_pool(cloud, project, pool_id))


@router.patch("/{pool_id}", response_model=Started)
async def update_pool(pool_id: str, body: PoolUpdate, project: Project, cloud: CloudDep) -> Json:
    """Change a node pool. Labels, taints, version and SSH key reach new VMs only."""
    item = find_pool(cloud, project, pool_id)
    not_kept(item)
    cluster = running_cluster(cloud, project, item.body["cluster_id"])
    idle(cloud, item)
    changes = _changes(cloud, item, body, cluster)
    vm_type = cloud.facts.vm_types[item.body["type"]]
    pool_within_quota(cloud, project, vm_type, changes.get("count", 0) - len(pools.staying(cloud, item)))
    payload = {"changes": changes, "before": view(cloud, item), **limits()}
    with cloud.store.transaction():
        operation = cloud.operations.open(OPERATIONS, "nodepool.update", project, item.id, payload)
    return await cloud.operations.launch(operation)


@router.delete("/{pool_id}", response_model=Started)
async def delete_pool(pool_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a node pool with its VMs."""
    item = find_pool(cloud, project, pool_id)
    return await delete(cloud, item, OPERATIONS, "nodepool.delete", None)


@router.get("/{pool_id}/vms", response_model=VmList)
async def list_pool_vms(pool_id: str, project: Project, cloud: CloudDep) -> Json:
    """The pool's VMs."""
    return {"items": [vm.body for vm in pools.vms_of(cloud, find_pool(cloud, project, pool_id))]}


@router.post("/{pool_id}/rotate", response_model=Started)
async def rotate_pool(pool_id: str, body: Rotate, project: Project, cloud: CloudDep) -> Json:
    """Replace, in batches of at most ten, the VMs that are behind the pool's configuration (CMK v1)."""
    item = find_pool(cloud, project, pool_id)
    cluster = running_cluster(cloud, project, item.body["cluster_id"])
    only_generation(cluster, "v1", "rotation")
    idle(cloud, item)
    chosen = body.strategy.lower()
    amount = body.count if chosen == "count" else body.percentage
    if amount < 1 or (chosen == "count" and amount > _LARGEST_BATCH):
        limit = _LARGEST_BATCH if chosen == "count" else 100
        raise bad_request(f"{chosen}: {amount} is not between 1 and {limit}")
    payload = {"strategy": chosen, "amount": amount}
    with cloud.store.transaction():
        item.hidden["rotation"] = "IN_PROGRESS"
        item.body["state"] = "STATE_ROTATING"
        cloud.store.save(item)
        operation = cloud.operations.open(OPERATIONS, "nodepool.rotate", project, item.id, payload)
    return await cloud.operations.launch(operation)


@router.get("/{pool_id}/rotate", response_model=RotationView)
async def get_rotation(pool_id: str, project: Project, cloud: CloudDep) -> Json:
    """How far a rotation is (CMK v1)."""
    item = find_pool(cloud, project, pool_id)
    only_generation(find(cloud, pools.CLUSTER, project, item.body["cluster_id"], "cluster"), "v1", "rotation")
    behind = [vm.id for vm in pools.vms_of(cloud, item) if not pools.latest(item, vm)]
    return {"state": item.hidden["rotation"], "out_of_sync_instances": behind}


@router.post("/{pool_id}/cancel-rotate", response_model=RotationCancelled)
async def cancel_rotation(pool_id: str, project: Project, cloud: CloudDep) -> Json:
    """End a rotation after its present batch (CMK v1)."""
    item = find_pool(cloud, project, pool_id)
    only_generation(find(cloud, pools.CLUSTER, project, item.body["cluster_id"], "cluster"), "v1", "rotation")
    rotating = item.hidden["rotation"] == "IN_PROGRESS"
    if rotating:
        with cloud.store.transaction():
            item.hidden["rotation"] = "CANCELLING"
            cloud.store.save(item)
    return {"no_rotate_in_progress": not rotating}


def find_pool(cloud: Cloud, project_id: str, identifier: str) -> Object:
    """A node pool of the project; raises 404."""
    return find(cloud, KIND, project_id, identifier, "node pool")


def view(cloud: Cloud, item: Object) -> Json:
    """A pool as the API answers it."""
    return _view(cloud, item, pools.members(cloud, pool_id=item.id).get(item.id, []))


def _view(cloud: Cloud, item: Object, vms: list[pools.Member]) -> Json:
    revision = item.hidden["revision"]
    row: Json = {
        **item.body,
        "node_labels": {**item.hidden["node_labels"], **pools.platform_labels(cloud, item)},
        "instance_ids": [vm.id for vm in vms],
        "instance_details": [{"id": vm.id, "using_latest_config": vm.revision == revision} for vm in vms],
    }
    if item.hidden["generation"] == "v2":
        row |= _health(item, vms)
    return row


def autoscale(cloud: Cloud, item: Object, count: int) -> Operation:
    """Open the operation by which a cluster autoscaler changes a pool's count, inside a transaction."""
    idle(cloud, item)
    payload = {"changes": {"count": count}, "before": view(cloud, item), "shrink": True}
    return cloud.operations.open(OPERATIONS, "nodepool.update", item.project_id, item.id, payload)


def _health(item: Object, vms: list[pools.Member]) -> Json:
    ready = sum(vm.state == "STATE_RUNNING" for vm in vms)
    missing = item.body["count"] - len(vms)
    settled = item.body["state"] == "STATE_RUNNING"
    issues: list[Json] = []
    if missing > 0 and settled:
        issues.append(
            {
                "code": "INSUFFICIENT_CAPACITY",
                "message": item.hidden["shortfall"] or f"{missing} VMs are missing",
                "since": item.body["updated_at"],
                "affected_count": missing,
                "affected_node_ids": [],
            }
        )
    row: Json = {"current": ready, "health": {"issues": issues}}
    if issues:
        row["state"] = "STATE_DEGRADED"
    return row


def pool_within_quota(cloud: Cloud, project: str, vm_type: VmType, vms: int) -> None:
    """Raises 400 when the quota doesn't allow so many more VMs, those that running operations will start included."""
    if vms <= 0:
        return
    wanted = vms * vm_type.slices
    for operation in cloud.operations.list(OPERATIONS, project, state=IN_PROGRESS):
        pool = cloud.store.get(KIND, operation.resource_id)
        other = cloud.facts.vm_types[pool.body["type"]] if pool is not None else None
        if pool is not None and other is not None and other.family == vm_type.family:
            count = operation.payload.get("changes", pool.body).get("count", 0)
            wanted += max(0, count - len(pools.staying(cloud, pool))) * other.slices
    within_quota(cloud, project, vm_type.family, wanted)


def limits() -> Json:
    """What a fault that met this request lets its operation find."""
    fault = faults.current.get()
    return {"at_most": fault.options.vms if fault and fault.kind == "partial-capacity" else None}


def new_pool(cloud: Cloud, project: str, body: PoolCreate, cluster: Object, vm_type: VmType) -> Object:
    """A node pool as it is kept, checked but not inserted; raises 400."""
    generation, location = cluster.hidden["generation"], cluster.body["location"]
    if generation == "v1":
        _refuse_v2_fields(body, cluster)
    if not cloud.inventory.offered(vm_type, location):
        raise bad_request(f"product_name: {vm_type.name} is not offered in {location}")
    if body.autoscaling_config is not None:
        _count_in_bounds(body.count, body.autoscaling_config)
    identifier, now = new_id(), cloud.clock.stamp()
    row: Json = {
        "id": identifier,
        "name": body.name,
        "type": vm_type.name,
        "count": body.count,
        "project_id": project,
        "cluster_id": cluster.id,
        "subnet_id": _subnet(cloud, project, body, cluster).id,
        "image_id": _version(cloud, body.node_pool_version, cluster),
        "node_taints": _taints(body.node_taints or []),
        "state": "STATE_PROVISIONING",
        "public_ip_type": body.public_ip_type,
        "reservation_id": _reservation(cloud, project, body.reservation_specification, vm_type, location),
        "ephemeral_storage_for_containerd": body.ephemeral_storage_for_containerd,
        "created_at": now,
        "updated_at": now,
    }
    if body.nvlink_domain_id:
        row["nvlink_domain_id"] = _nvlink_domain(cloud, body.nvlink_domain_id, vm_type, location)
    if generation == "v2":
        row["consent_mode"] = body.consent_mode or "propose"
        row["update_settings"] = (body.update_settings or UpdateSettings()).model_dump()
        row["autoscaling_config"] = (body.autoscaling_config or Autoscaling(enabled=False)).model_dump()
    _ephemeral_fits(row["ephemeral_storage_for_containerd"], cloud, row["image_id"], vm_type)
    hidden: Json = {
        "generation": generation,
        "location": location,
        "node_labels": body.node_labels or {},
        "ssh_public_key": body.ssh_public_key or "",
        "ib_partition_id": _partition(cloud, project, body, vm_type, location),
        "placement_policy": body.placement_policy,
        "instance_group_id": new_id(),
        "revision": 1,
        "next_vm": 1,
        "rotation": "IDLE",
        "shortfall": None,
    }
    return Object(KIND, identifier, project, body.name, row, parent_id=cluster.id, hidden=hidden)


def _refuse_v2_fields(body: PoolCreate | PoolUpdate, cluster: Object) -> None:
    for key in V2_ONLY:
        if getattr(body, key) is not None:
            only_generation(cluster, "v2", key)


def _count_in_bounds(count: int, bounds: Autoscaling) -> None:
    if bounds.enabled and not bounds.min_node_size <= count <= bounds.max_node_size:
        raise bad_request(
            f"count: {count} is outside autoscaling_config ({bounds.min_node_size} to {bounds.max_node_size})"
        )


def _subnet(cloud: Cloud, project: str, body: PoolCreate, cluster: Object) -> Object:
    subnet = refer(cloud, vpc_subnets.KIND, project, body.subnet_id or cluster.body["subnet_id"], "subnet_id")
    idle(cloud, subnet)
    home = refer(cloud, vpc_subnets.KIND, project, cluster.body["subnet_id"], "cluster_id")
    if subnet.body["location"] != cluster.body["location"]:
        raise bad_request(
            f"subnet_id: subnet {subnet.name} is in {subnet.body['location']}, not in {cluster.body['location']}"
        )
    if subnet.body["vpc_network_id"] != home.body["vpc_network_id"]:
        raise bad_request(f"subnet_id: subnet {subnet.name} is not in the VPC network of cluster {cluster.name}")
    return subnet


def _version(cloud: Cloud, wanted: str | None, cluster: Object) -> str:
    if not wanted:
        return newest_pool_version(cloud, cluster.body["version"])
    return fitting_pool_version(cloud, wanted, cluster.body["version"]).name


def _ephemeral_fits(wanted: bool, cloud: Cloud, version: str, vm_type: VmType) -> None:
    if not wanted:
        return
    known = cloud.facts.node_pool_versions.get(version)
    if known is None or "ephemeral_storage_for_containerd" not in known.features:
        raise bad_request(f"ephemeral_storage_for_containerd: node pool version {version} does not support it")
    if vm_type.disk_gb == 0:
        raise bad_request(f"ephemeral_storage_for_containerd: {vm_type.name} has no local disk")


def _reservation(
    cloud: Cloud, project: str, wanted: ReservationSpecification | None, vm_type: VmType, location: str
) -> str:
    if wanted is None or wanted.id is None:
        return ""
    return _known_reservation(cloud, project, wanted.id, vm_type, location, "reservation_specification.id")


def _known_reservation(
    cloud: Cloud, project: str, identifier: str, vm_type: VmType, location: str, field_name: str
) -> str:
    reservation = cloud.facts.reservations.get(identifier)
    if reservation is None or reservation.project_id != project:
        raise bad_request(f"{field_name}: there is no reservation {identifier} for this project")
    if reservation.product_line != vm_type.name or location not in reservation.locations:
        places = ", ".join(reservation.locations)
        raise bad_request(f"{field_name}: reservation {identifier} is for {reservation.product_line} in {places}")
    return identifier


def _partition(cloud: Cloud, project: str, body: PoolCreate, vm_type: VmType, location: str) -> str | None:
    named = {value for value in (body.ib_partition_id, body.transport_partition_id) if value}
    if len(named) > 1:
        raise bad_request("ib_partition_id and transport_partition_id name different partitions; give one of them")
    if not named:
        if vm_type.fabric == "infiniband":
            raise bad_request(f"ib_partition_id: {vm_type.name} has InfiniBand adapters and needs a partition")
        return None
    if vm_type.fabric is None:
        raise bad_request(f"ib_partition_id: {vm_type.name} has no InfiniBand adapters")
    partition = refer(cloud, ib.KIND, project, named.pop(), "ib_partition_id")
    network = cloud.facts.ib_networks[partition.body["ib_network_id"]]
    if network.location != location:
        raise bad_request(
            f"ib_partition_id: partition {partition.name} lies in {network.location}, the cluster in {location}"
        )
    if vm_type.fabric == "infiniband" and vm_type.name not in network.capacity:
        raise bad_request(f"ib_partition_id: IB network {network.name} has no {vm_type.name}")
    return partition.id


def _nvlink_domain(cloud: Cloud, identifier: str, vm_type: VmType, location: str) -> str:
    domain = cloud.facts.nvlink_domains.get(identifier)
    if domain is None or domain.location != location:
        raise bad_request(f"nvlink_domain_id: there is no NVLink domain {identifier} in {location}")
    if not vm_type.nvlink:
        raise bad_request(f"nvlink_domain_id: {vm_type.name} does not use NVLink domains")
    return identifier


def _taints(taints: list[Taint]) -> list[Json]:
    return [taint.model_dump(exclude_none=True) for taint in taints]


def _changes(cloud: Cloud, item: Object, body: PoolUpdate, cluster: Object) -> dict[str, Any]:
    """What an update really changes, checked. Keys are those of the pool, `ssh_public_key` included."""
    vm_type = cloud.facts.vm_types[item.body["type"]]
    if cluster.hidden["generation"] == "v1":
        _refuse_v2_fields(body, cluster)
    wanted: dict[str, Any] = {
        "count": body.count,
        "node_labels": body.node_labels,
        "node_taints": None if body.node_taints is None else _taints(body.node_taints),
        "ephemeral_storage_for_containerd": body.ephemeral_storage_for_containerd,
        "ssh_public_key": body.ssh_public_key,
        "consent_mode": body.consent_mode,
        "update_settings": body.update_settings and body.update_settings.model_dump(),
        "autoscaling_config": body.autoscaling_config and body.autoscaling_config.model_dump(),
    }
    # A client echoes the version that it read, whatever its form: the present one always means keep.
    if body.node_pool_version and body.node_pool_version != item.body["image_id"]:
        wanted["image_id"] = fitting_pool_version(cloud, body.node_pool_version, cluster.body["version"]).name
    if body.action == "RESERVE" or body.reservation_id:
        if not body.reservation_id:
            raise bad_request("reservation_id: action RESERVE needs one")
        wanted["reservation_id"] = _known_reservation(
            cloud, item.project_id, body.reservation_id, vm_type, item.hidden["location"], "reservation_id"
        )
    elif body.action == "UNRESERVE":
        wanted["reservation_id"] = ""
    changes = {key: value for key, value in wanted.items() if value is not None}
    if changes.get("ephemeral_storage_for_containerd"):
        _ephemeral_fits(True, cloud, changes.get("image_id", item.body["image_id"]), vm_type)
    if bounds := changes.get("autoscaling_config"):
        _count_in_bounds(changes.get("count", item.body["count"]), Autoscaling(**bounds))
    return changes


def _apply(cloud: Cloud, item: Object, changes: Json) -> None:
    """Put checked changes into a pool, and move its revision on when new VMs would differ from the present ones."""
    before = pools.configuration(item)
    for key, value in changes.items():
        if key == "node_labels":
            item.hidden[key] = value
        elif key == "ssh_public_key":
            _new_key(item, value)
        else:
            item.body[key] = value
    if "reservation_id" in changes:
        _move_reservation(cloud, item)
    lost_key = changes.get("ssh_public_key") == ""
    if pools.configuration(item) != before or lost_key:
        item.hidden["revision"] += 1
    item.body["updated_at"] = cloud.clock.stamp()


def _move_reservation(cloud: Cloud, item: Object) -> None:
    for vm in pools.vms_of(cloud, item):
        vm.body["reservation_id"] = item.body["reservation_id"]
        cloud.store.save(vm)


def _new_key(item: Object, key: str) -> None:
    # Clients up to 1.1.1 send an empty key with every update. CMK v1 keeps the key but takes every node to be out of
    # date, CMK v2 makes its template anew without a key.
    if key or item.hidden["generation"] == "v2":
        item.hidden["ssh_public_key"] = key


async def _create(cloud: Cloud, operation: Operation) -> None:
    with cloud.store.transaction():
        item = existing(cloud, KIND, operation.resource_id)
        _fill(cloud, item, operation)
    await pools.run(cloud, item)


def _created(cloud: Cloud, operation: Operation) -> Json:
    item = existing(cloud, KIND, operation.resource_id)
    started = pools.running(cloud, item)
    item.body["state"] = "STATE_RUNNING"
    cloud.store.save(item)
    cloud.journal.record("nodepool.running", item.id, name=item.name, vms=started)
    return {"node_pool": view(cloud, item), "details": _details(item, started)}


def _not_created(cloud: Cloud, operation: Operation, failure: OperationFailedError) -> None:
    item = cloud.store.get(KIND, operation.resource_id)
    if item is not None:
        pools.remove(cloud, pools.vms_of(cloud, item))
    discard(KIND)(cloud, operation, failure)


async def _update(cloud: Cloud, operation: Operation) -> None:
    with cloud.store.transaction():
        item = existing(cloud, KIND, operation.resource_id)
        if item.hidden.get("applied") != operation.id:
            item.hidden["undo"] = {"body": dict(item.body), "hidden": {key: item.hidden[key] for key in _RESTORED}}
            item.hidden["applied"] = operation.id
            _apply(cloud, item, operation.payload["changes"])
            item.body["state"] = "STATE_UPDATING"
            cloud.store.save(item)
        _fill(cloud, item, operation)
        leaving = _surplus(cloud, item, operation)
    await pools.run(cloud, item)
    await pools.drain_nodes(cloud, item, leaving)


_RESTORED = ("node_labels", "ssh_public_key", "revision", "shortfall")


def _updated(cloud: Cloud, operation: Operation) -> Json:
    item = existing(cloud, KIND, operation.resource_id)
    pools.remove(cloud, _surplus(cloud, item, operation))
    started = pools.running(cloud, item)
    item.body["state"] = "STATE_RUNNING"
    item.hidden.pop("undo", None)
    cloud.store.save(item)
    cloud.journal.record("nodepool.updated", item.id, name=item.name, changes=sorted(operation.payload["changes"]))
    return {"node_pool": operation.payload["before"], "details": _details(item, started)}


def _not_updated(cloud: Cloud, operation: Operation, _failure: OperationFailedError) -> None:
    item = cloud.store.get(KIND, operation.resource_id)
    if item is None or item.hidden.get("applied") != operation.id:
        return
    pools.remove(cloud, [vm for vm in pools.vms_of(cloud, item) if vm.hidden["operation_id"] == operation.id])
    before = item.hidden.pop("undo")
    item.body = before["body"]
    item.hidden |= before["hidden"]
    cloud.store.save(item)
    _move_reservation(cloud, item)


def _surplus(cloud: Cloud, item: Object, operation: Operation) -> list[Object]:
    """The newest VMs above the count, where the pool may shrink."""
    if not (operation.payload.get("shrink") or item.body.get("update_settings", {}).get("allow_scale_down")):
        return []
    return pools.staying(cloud, item)[item.body["count"] :]


def _fill(cloud: Cloud, item: Object, operation: Operation) -> None:
    item.hidden["shortfall"] = pools.fill(cloud, item, operation.id, operation.payload.get("at_most"))
    cloud.store.save(item)


def _details(item: Object, started: int) -> Json:
    shortfall = item.hidden["shortfall"]
    return {"error": shortfall, "num_vms_created": started} if shortfall else {"num_vms_created": started}


async def _delete(cloud: Cloud, operation: Operation) -> None:
    item = existing(cloud, KIND, operation.resource_id)
    await pools.drop_nodes(cloud, item, pools.vms_of(cloud, item))


def _deleted(cloud: Cloud, operation: Operation) -> None:
    item = existing(cloud, KIND, operation.resource_id)
    pools.remove(cloud, pools.vms_of(cloud, item))
    cloud.store.remove(KIND, item.id)
    cloud.journal.record("nodepool.deleted", item.id, name=item.name)


async def _refill(cloud: Cloud, operation: Operation) -> None:
    pool = cloud.store.get(KIND, operation.payload["pool_id"])
    if pool is None or pool.body["state"] == "STATE_DELETING":
        return
    with cloud.store.transaction():
        _fill(cloud, pool, operation)
    await pools.run(cloud, pool)


def _refilled(cloud: Cloud, operation: Operation) -> None:
    pool = cloud.store.get(KIND, operation.payload["pool_id"])
    if pool is not None:
        pools.running(cloud, pool)


async def _rotate(cloud: Cloud, operation: Operation) -> None:
    while batch := _batch(cloud, operation):
        item = existing(cloud, KIND, operation.resource_id)
        await pools.drain_nodes(cloud, item, batch)
        with cloud.store.transaction():
            pools.remove(cloud, batch)
            _fill(cloud, item, operation)
        await pools.run(cloud, item)
        with cloud.store.transaction():
            pools.running(cloud, item)
        await asyncio.sleep(0)


def _batch(cloud: Cloud, operation: Operation) -> list[Object]:
    item = existing(cloud, KIND, operation.resource_id)
    if item.hidden["rotation"] != "IN_PROGRESS":
        return []
    vms = pools.vms_of(cloud, item)
    amount = operation.payload["amount"]
    if operation.payload["strategy"] == "percentage":
        amount = max(1, len(vms) * amount // 100)
    behind = [vm for vm in vms if not pools.latest(item, vm)]
    return behind[: min(amount, _LARGEST_BATCH)]


def _rotated(cloud: Cloud, operation: Operation) -> Json:
    item = existing(cloud, KIND, operation.resource_id)
    pools.running(cloud, item)
    _end_rotation(cloud, item)
    return {"node_pool": view(cloud, item), "details": {}}


def _not_rotated(cloud: Cloud, operation: Operation, _failure: OperationFailedError) -> None:
    item = cloud.store.get(KIND, operation.resource_id)
    if item is not None:
        _end_rotation(cloud, item)


def _end_rotation(cloud: Cloud, item: Object) -> None:
    item.hidden["rotation"] = "IDLE"
    item.body["state"] = "STATE_RUNNING"
    cloud.store.save(item)


FAMILY = Family(
    router,
    OPERATIONS,
    {
        "nodepool.create": Work(_create, _created, _not_created, uses_control_plane=True),
        "nodepool.update": Work(_update, _updated, _not_updated, uses_control_plane=True),
        "nodepool.delete": Work(_delete, _deleted, restore(KIND), uses_control_plane=True),
        "nodepool.refill": Work(_refill, _refilled, uses_control_plane=True),
        "nodepool.rotate": Work(_rotate, _rotated, _not_rotated, uses_control_plane=True),
    },
)
