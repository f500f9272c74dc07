"""AutoClusters of CMK v1: its configuration per cluster, a repair by hand, and the history of repairs.

The configuration merges: an override is set or removed by issue name, and everything else stays. Whether an issue's
default is OFF is the platform's choice and may change, so only an override is a promise.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from localcloud import pools
from localcloud.api.compute import pool_of
from localcloud.api.family import PROJECT, CloudDep, Family, Project, find, idle, known_operation
from localcloud.api.kubernetes_clusters import find_cluster, only_generation, running_cluster
from localcloud.api.wire import Answer, Body, Filters, OperationList, OperationView, Started, absent
from localcloud.cloud import Cloud
from localcloud.errors import bad_request
from localcloud.operations import Operation, OperationFailedError, Work
from localcloud.store import Json, Object

OPERATIONS = "kubernetes/autocluster-operations"

router = APIRouter(prefix=f"{PROJECT}/kubernetes", tags=["AutoClusters"])

Action = Literal["REPLACE_NODE", "OFF"]


class Override(Body):
    """What to do about an issue."""

    issue_name: str
    action: Action


class ConfigUpdate(Body):
    """Overrides to set and to remove; what is absent stays."""

    set_remediation_overrides: list[Override] | None = None
    remove_remediation_overrides: list[str] | None = None
    fallback_to_project_reservations: bool | None = None


class RemediationConfig(Answer):
    """One issue; `user_override` only where there is one."""

    issue_name: str
    default_action: str
    user_override: str = absent()
    effective_action: str


class Config(Answer):
    """The configuration of a cluster."""

    remediation_configs: list[RemediationConfig]
    fallback_to_project_reservations: bool
    updated_at: str


class HistoryFilters(Filters):
    """Filters of the repair history; bounds are RFC 3339 times."""

    cluster_id: str | None = None
    operation_id: str | None = None
    state: str | None = None
    operation_type: str | None = None
    remediation_state: str | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None


@router.get("/clusters/{cluster_id}/autoclusters/config", response_model=Config)
async def get_config(cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """Every issue of the catalogue with its default, override and effect."""
    return _view(cloud, _supported(cloud, project, cluster_id))


@router.patch("/clusters/{cluster_id}/autoclusters/config", response_model=Config)
async def update_config(cluster_id: str, body: ConfigUpdate, project: Project, cloud: CloudDep) -> Json:
    """Set and remove overrides."""
    cluster = _supported(cloud, project, cluster_id)
    wanted = {row.issue_name: row.action for row in body.set_remediation_overrides or []}
    removed = body.remove_remediation_overrides or []
    known = issues(cloud)
    for name in (*wanted, *removed):
        if name not in known:
            raise bad_request(f"issue_name: {name!r} is unknown; known are {', '.join(sorted(known))}")
    if both := wanted.keys() & set(removed):
        raise bad_request(f"issue {min(both)} is both set and removed")
    with cloud.store.transaction():
        config = cluster.hidden["autoclusters"]
        kept = {name: action for name, action in config["overrides"].items() if name not in removed}
        config["overrides"] = kept | wanted
        if body.fallback_to_project_reservations is not None:
            config["fallback_to_project_reservations"] = body.fallback_to_project_reservations
        config["updated_at"] = cloud.clock.stamp()
        cloud.store.save(cluster)
    return _view(cloud, cluster)


@router.post("/clusters/{cluster_id}/autoclusters/vms/{vm_id}/remediate", response_model=Started)
async def remediate(cluster_id: str, vm_id: str, project: Project, cloud: CloudDep) -> Json:
    """Replace a VM of the cluster now, whatever the configuration says."""
    cluster = _supported(cloud, project, cluster_id)
    running_cluster(cloud, project, cluster_id)
    vm = find(cloud, pools.VM, project, vm_id, "VM")
    pool = pool_of(cloud, vm)
    if pool is None or pool.body["cluster_id"] != cluster.id:
        raise bad_request(f"VM {vm_id} does not belong to cluster {cluster.name}")
    idle(cloud, vm)
    if not cloud.facts.vm_types[vm.body["type"]].whole_host:
        raise bad_request(f"VM {vm.name} shares its host ({vm.body['type']}), which AutoClusters does not support")
    with cloud.store.transaction():
        operation = open_replacement(cloud, project, cluster.id, pool.id, vm.id)
    return await cloud.operations.launch(operation)


def open_replacement(
    cloud: Cloud,
    project: str,
    cluster_id: str,
    pool_id: str,
    vm_id: str,
    *,
    issue_name: str = "",
    drained: bool = False,
) -> Operation:
    """Write the operation that replaces a VM, inside the caller's transaction; it may be gone already.

    `drained`: its node has been drained, as far as that was possible.
    """
    metadata = {"cluster_id": cluster_id, "vm_id": vm_id, "operation_type": "replace_node"}
    if issue_name:
        metadata["issue_name"] = issue_name
    payload = {"pool_id": pool_id, "drained": drained}
    return cloud.operations.open(OPERATIONS, "vm.replace", project, vm_id, payload, metadata=metadata)


@router.get("/autocluster-operations", response_model=OperationList)
async def list_history(project: Project, cloud: CloudDep, filters: Annotated[HistoryFilters, Query()]) -> Json:
    """The repair history."""

    def wanted(row: Json) -> bool:
        metadata = row["metadata"]
        return (
            filters.cluster_id in (None, "", metadata["cluster_id"])
            and filters.operation_id in (None, "", row["operation_id"])
            and filters.state in (None, "", row["state"])
            and filters.operation_type in (None, "", metadata["operation_type"])
            and filters.remediation_state in (None, "", metadata["remediation_state"])
            and (filters.lower_bound or "") <= row["started_at"] <= (filters.upper_bound or "9999")
        )

    rows = [_history(operation) for operation in cloud.operations.list(OPERATIONS, project)]
    return {"items": [row for row in rows if wanted(row)]}


@router.get("/autocluster-operations/{operation_id}", response_model=OperationView)
async def get_history(operation_id: str, project: Project, cloud: CloudDep) -> Json:
    """One repair."""
    return _history(known_operation(cloud, OPERATIONS, project, operation_id))


def issues(cloud: Cloud) -> dict[str, str]:
    """The catalogue: the platform's default action by issue name, later additions and changes included."""
    return {**cloud.facts.autoclusters_issues, **cloud.store.settings("autoclusters_issue:")}


def set_issue(cloud: Cloud, name: str, action: Action) -> None:
    """Add an issue to the catalogue, or change a default, as the platform may at any time."""
    cloud.store.set_setting(f"autoclusters_issue:{name}", action)


def effective_actions(cloud: Cloud, cluster: Object) -> dict[str, str]:
    """The action by issue name; nothing where the cluster has no AutoClusters."""
    if not _has_autoclusters(cloud, cluster):
        return {}
    return {**issues(cloud), **cluster.hidden["autoclusters"]["overrides"]}


def _has_autoclusters(cloud: Cloud, cluster: Object) -> bool:
    features = cloud.facts.cluster_versions[cluster.body["version"]].features
    return cluster.hidden["generation"] == "v1" and "autoclusters" in features


def _supported(cloud: Cloud, project: str, cluster_id: str) -> Object:
    cluster = find_cluster(cloud, project, cluster_id)
    only_generation(cluster, "v1", "the AutoClusters configuration")
    if not _has_autoclusters(cloud, cluster):
        version = cluster.body["version"]
        raise bad_request(f"version {version} of cluster {cluster.name} does not support AutoClusters")
    return cluster


def _view(cloud: Cloud, cluster: Object) -> Json:
    config = cluster.hidden["autoclusters"]
    overrides = config["overrides"]
    rows: list[Json] = []
    for name, default in sorted(issues(cloud).items()):
        row: Json = {"issue_name": name, "default_action": default, "effective_action": overrides.get(name, default)}
        if name in overrides:
            row["user_override"] = overrides[name]
        rows.append(row)
    return {
        "remediation_configs": rows,
        "fallback_to_project_reservations": config["fallback_to_project_reservations"],
        "updated_at": config["updated_at"],
    }


def _history(operation: Operation) -> Json:
    row = operation.view()
    row["metadata"] = {**operation.metadata, "remediation_state": operation.state.lower()}
    return row


async def _replace(cloud: Cloud, operation: Operation) -> None:
    pool = cloud.store.get(pools.POOL, operation.payload["pool_id"])
    vm = cloud.store.get(pools.VM, operation.resource_id)
    if pool is None:
        raise OperationFailedError("the node pool no longer exists", "not_found")
    if vm is not None:
        leave = pools.drop_nodes if operation.payload["drained"] else pools.drain_nodes
        await leave(cloud, pool, [vm])
    with cloud.store.transaction():
        if vm is not None:
            pools.retire(cloud, pool, vm)
        shortfall = pools.fill(cloud, pool, operation.id)
        pool.hidden["shortfall"] = shortfall
        cloud.store.save(pool)
    await pools.run(cloud, pool)
    if shortfall:
        raise OperationFailedError(shortfall, "insufficient_capacity")


def _replaced(cloud: Cloud, operation: Operation) -> None:
    pool = cloud.store.get(pools.POOL, operation.payload["pool_id"])
    if pool is not None:
        pools.running(cloud, pool)


FAMILY = Family(router, works={"vm.replace": Work(_replace, _replaced, uses_control_plane=True)})
