"""CMK clusters of both generations: the cluster itself, its credentials and its support settings."""

import ipaddress
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from localcloud import pools
from localcloud.api import firewall_rules, vpc_subnets
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
    idle,
    insert,
    known_location,
    not_kept,
    refer,
    restore,
    updater,
)
from localcloud.api.kubernetes_versions import offered_cluster_version
from localcloud.api.wire import Answer, Body, Cidr, Filters, Name, Started, absent, overlap
from localcloud.cloud import Cloud, new_id
from localcloud.control_plane import AuthType, ControlPlaneError
from localcloud.errors import bad_request, internal_error
from localcloud.facts import Version
from localcloud.operations import Operation, OperationFailedError, Work
from localcloud.store import Json, Object

OPERATIONS = "kubernetes/clusters"
KIND = pools.CLUSTER
# Defaults when the call leaves them out; the pod range is the one that the API's description uses as an example.
_CLUSTER_CIDR = "10.233.64.0/18"
_SERVICE_RANGE = "10.233.0.0/18"
_MASK = 24
_LARGEST_MASK = 30

router = APIRouter(prefix=f"{PROJECT}/kubernetes/clusters", tags=["Kubernetes clusters"])

Args = dict[str, str]
Text = Annotated[str, StringConstraints(min_length=1)]


class Oidc(Body):
    """OIDC settings of the API server."""

    issuer_url: Annotated[str, StringConstraints(pattern=r"^https://\S+$")]
    client_id: Text
    username_claim: Text = "sub"
    username_prefix: str | None = None
    groups_claim: str | None = None
    ca_cert: str | None = None


class AuthConfig(Body):
    """How users sign in."""

    oidc: Oidc


class ClusterCreate(Body):
    """A new cluster; the form of `version` tells its generation."""

    name: Name
    location: str
    version: str
    add_ons: list[str] | None = None
    subnet_id: str | None = None
    cluster_cidr: Cidr | None = None
    service_cluster_ip_range: Cidr | None = None
    node_cidr_mask_size: Annotated[int, Field(ge=1, le=_LARGEST_MASK)] | None = None
    private: bool = False
    auth_config: AuthConfig | None = None
    apiserver_extra_args: Args | None = None
    scheduler_extra_args: Args | None = None
    controller_manager_extra_args: Args | None = None
    kubelogin_args: Args | None = None
    configuration: Literal["ha"] | None = None
    routing_mode: Literal["overlay", "native"] | None = None


class ClusterUpdate(Body):
    """Maps that may change: absent or null keeps, empty clears."""

    apiserver_extra_args: Args | None = None
    scheduler_extra_args: Args | None = None
    controller_manager_extra_args: Args | None = None
    kubelogin_args: Args | None = None
    configuration: Literal["ha"] | None = None


class ClusterView(Answer):
    """A cluster. OIDC settings are never answered."""

    id: str
    name: str
    project_id: str
    location: str
    version: str
    configuration: str
    subnet_id: str
    cluster_cidr: str
    service_cluster_ip_range: str
    node_cidr_mask_size: int
    private: bool = absent()
    add_ons: list[str]
    node_pools: list[str]
    state: str
    dns_name: str
    routing_mode: str = absent()
    apiserver_extra_args: Args = absent()
    scheduler_extra_args: Args = absent()
    controller_manager_extra_args: Args = absent()
    kubelogin_args: Args | None
    created_at: str
    updated_at: str


class ClusterList(Answer):
    """Clusters."""

    items: list[ClusterView]


class ClusterFilters(Filters):
    """Filters of the cluster list."""

    cluster_id: str | None = None
    cluster_name: str | None = None
    cluster_search_names: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    show_inactive: bool = False


class CredentialFilters(Filters):
    """Which kind of kubeconfig is wanted."""

    auth_type: AuthType = "admin_cert"


class Credentials(Answer):
    """A kubeconfig and its parts; certificates and keys are PEM text."""

    cluster_name: str
    cluster_address: str
    cluster_ca_certificate: str
    user_name: str
    user_client_certificate: str
    user_client_key: str
    kube_config: str


class SupportUpdate(Body):
    """Support access to change."""

    access_enabled: bool | None = None
    enabled_roles: list[Literal["operator", "readonly"]] | None = None


class SupportSettings(Answer):
    """Who of support may enter the cluster."""

    access_enabled: bool
    enabled_roles: list[str]
    active_requests: list[dict[str, Any]]


@router.post("", response_model=Started)
async def create_cluster(body: ClusterCreate, project: Project, cloud: CloudDep) -> Json:
    """Create a cluster. It fails later if its network lets no traffic through."""
    item = new_cluster(cloud, project, body, offered_cluster_version(cloud, body.version))
    with cloud.store.transaction():
        insert(cloud, item)
        operation = cloud.operations.open(OPERATIONS, "cluster.create", project, item.id)
    return await cloud.operations.launch(operation)


@router.get("", response_model=ClusterList)
async def list_clusters(project: Project, cloud: CloudDep, filters: Annotated[ClusterFilters, Query()]) -> Json:
    """The project's clusters."""

    def wanted(item: Object) -> bool:
        body = item.body
        return (
            filters.cluster_id in (None, "", item.id)
            and filters.cluster_name in (None, "", item.name)
            and (not filters.cluster_search_names or any(part in item.name for part in filters.cluster_search_names))
            and (not filters.locations or body["location"] in filters.locations)
            and (not filters.states or body["state"] in filters.states)
            and (not filters.versions or body["version"] in filters.versions)
        )

    return {"items": [_view(cloud, item) for item in cloud.store.all(KIND, project) if wanted(item)]}


@router.get("/{cluster_id}", response_model=ClusterView)
async def get_cluster(cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """One cluster."""
    return _view(cloud, find_cluster(cloud, project, cluster_id))


@router.patch("/{cluster_id}", response_model=Started)
async def update_cluster(cluster_id: str, body: ClusterUpdate, project: Project, cloud: CloudDep) -> Json:
    """Change extra arguments. They take effect at the control plane's next rotation."""
    item = find_cluster(cloud, project, cluster_id)
    not_kept(item)
    changes = body.model_dump(exclude_none=True)
    if not changes:
        raise bad_request("the update changes nothing: name at least one of the extra-args maps or kubelogin_args")
    return await change(cloud, item, OPERATIONS, "cluster.update", changes)


@router.delete("/{cluster_id}", response_model=Started)
async def delete_cluster(cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """Delete a cluster without node pools."""
    item = find_cluster(cloud, project, cluster_id)
    children = cloud.store.all(pools.POOL, parent_id=item.id)
    not_kept(item)
    names = ", ".join(pool.name for pool in children)
    in_use = bad_request(f"Kubernetes cluster {item.name} still has node pools ({names})") if children else None
    return await delete(cloud, item, OPERATIONS, "cluster.delete", in_use)


@router.post("/{cluster_id}/get-credentials", response_model=Credentials)
async def get_credentials(
    cluster_id: str, project: Project, cloud: CloudDep, filters: Annotated[CredentialFilters, Query()]
) -> Json:
    """A kubeconfig, with a new client certificate on every call."""
    item = running_cluster(cloud, project, cluster_id)
    if filters.auth_type == "oidc" and not item.hidden["oidc"]:
        raise bad_request(f"auth_type: Kubernetes cluster {item.name} has no OIDC settings")
    try:
        found = await cloud.planes.credentials(pools.cluster_spec(item), filters.auth_type)
    except ControlPlaneError as error:
        raise internal_error(str(error)) from error
    return asdict(found)


@router.get("/{cluster_id}/support/settings", response_model=SupportSettings)
async def get_support(cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """Support access; off unless it was enabled."""
    return find_cluster(cloud, project, cluster_id).hidden["support"]


@router.patch("/{cluster_id}/support/settings", response_model=SupportSettings)
async def update_support(cluster_id: str, body: SupportUpdate, project: Project, cloud: CloudDep) -> Json:
    """Change support access."""
    item = find_cluster(cloud, project, cluster_id)
    with cloud.store.transaction():
        item.hidden["support"] |= body.model_dump(exclude_none=True)
        cloud.store.save(item)
    return item.hidden["support"]


def find_cluster(cloud: Cloud, project_id: str, identifier: str) -> Object:
    """A cluster of the project; raises 404."""
    return find(cloud, KIND, project_id, identifier, "Kubernetes cluster")


def running_cluster(cloud: Cloud, project_id: str, identifier: str) -> Object:
    """A cluster that runs; raises 404, or 400 while it is being made or deleted."""
    item = find_cluster(cloud, project_id, identifier)
    if item.body["state"] != "STATE_RUNNING":
        raise bad_request(f"Kubernetes cluster {item.name} is not running ({item.body['state']})")
    return item


def only_generation(cluster: Object, generation: str, what: str) -> None:
    """Raises 400 when the cluster is of the other generation."""
    if cluster.hidden["generation"] != generation:
        version = cluster.body["version"]
        raise bad_request(f"{what} is only available on CMK {generation}; cluster {cluster.name} has version {version}")


def new_cluster(cloud: Cloud, project: str, body: ClusterCreate, version: Version) -> Object:
    """A cluster as it is kept, checked but not inserted; raises 400."""
    known_location(cloud, body.location)
    _generation_fits(body, version)
    _known_add_ons(cloud, version, body.add_ons or [])
    subnet = _subnet(cloud, project, body)
    item = _new_cluster(cloud, project, body, version, subnet)
    _ranges_fit(item.body, subnet)
    return item


async def bring_up(cloud: Cloud, item: Object) -> None:
    """Start a cluster's control plane; fails the operation when its network lets no traffic through."""
    subnet = existing(cloud, vpc_subnets.KIND, item.body["subnet_id"])
    if missing := firewall_rules.missing_for_cluster(cloud, subnet):
        raise OperationFailedError(f"the control plane of cluster {item.name} did not come up: {missing}")
    await cloud.planes.create(pools.cluster_spec(item))


def came_up(cloud: Cloud, item: Object) -> None:
    """Mark a cluster as running, inside a transaction."""
    item.body["state"] = "STATE_RUNNING"
    cloud.store.save(item)
    cloud.journal.record("cluster.running", item.id, name=item.name)


def ended(cloud: Cloud, project_id: str, cluster_id: str) -> None:
    """Forget a cluster whose control plane is gone, inside a transaction."""
    cloud.store.remove(KIND, cluster_id)
    cloud.journal.record("cluster.deleted", cluster_id)
    for kind in ("disk", "load-balancer", "firewall-rule"):
        # What was made from inside of the cluster outlives it and goes on costing, as in the real cloud.
        for item in cloud.store.all(kind, project_id):
            if item.hidden.get("cluster_id") == cluster_id:
                cloud.journal.record(f"{kind}.left_behind", item.id, name=item.name, cluster=cluster_id)


def _generation_fits(body: ClusterCreate, version: Version) -> None:
    if version.generation == "v2" and body.add_ons:
        raise bad_request("add_ons: on CMK v2 add-ons are installed by POST .../clusters/{id}/addons, after creation")
    if version.generation == "v1" and body.routing_mode is not None:
        raise bad_request(f"routing_mode is only available on CMK v2, and version {version.name} is CMK v1")


def _known_add_ons(cloud: Cloud, version: Version, names: list[str]) -> None:
    for name in names:
        add_on = cloud.facts.add_ons.get(name)
        if add_on is None:
            raise bad_request(f"add_ons: {name!r} is unknown; known are {', '.join(cloud.facts.add_ons)}")
        if add_on.feature is not None and add_on.feature not in version.features:
            raise bad_request(f"add_ons: {name} is not available on version {version.name}")
    if len(set(names)) < len(names):
        raise bad_request("add_ons: an add-on is named twice")


def _subnet(cloud: Cloud, project: str, body: ClusterCreate) -> Object:
    if body.subnet_id is None:
        return vpc_subnets.default_subnet(cloud, project, body.location)
    subnet = refer(cloud, vpc_subnets.KIND, project, body.subnet_id, "subnet_id")
    idle(cloud, subnet)
    if subnet.body["location"] != body.location:
        raise bad_request(f"subnet_id: subnet {subnet.name} is in {subnet.body['location']}, not in {body.location}")
    return subnet


def _new_cluster(cloud: Cloud, project: str, body: ClusterCreate, version: Version, subnet: Object) -> Object:
    identifier, now = new_id(), cloud.clock.stamp()
    row: Json = {
        "id": identifier,
        "name": body.name,
        "project_id": project,
        "location": body.location,
        "version": body.version,
        "configuration": body.configuration or "ha",
        "subnet_id": subnet.id,
        "cluster_cidr": body.cluster_cidr or _CLUSTER_CIDR,
        "service_cluster_ip_range": body.service_cluster_ip_range or _SERVICE_RANGE,
        "node_cidr_mask_size": body.node_cidr_mask_size or _MASK,
        "add_ons": body.add_ons or [],
        "state": "STATE_PROVISIONING",
        "dns_name": f"{identifier}.cmk.{body.location}.crusoecloudcompute.com",
        "kubelogin_args": body.kubelogin_args,
        "created_at": now,
        "updated_at": now,
    }
    for key in ("apiserver_extra_args", "scheduler_extra_args", "controller_manager_extra_args"):
        if value := getattr(body, key):
            row[key] = value
    if body.private:
        row["private"] = True
    if version.generation == "v2":
        row["routing_mode"] = body.routing_mode or "overlay"
    preinstalled = {
        name: {"version": add_on.versions[0], "installed_version": add_on.versions[0]}
        for name, add_on in cloud.facts.add_ons.items()
        if add_on.category == "preinstalled"
    }
    hidden: Json = {
        "generation": version.generation,
        "oidc": body.auth_config.oidc.model_dump() if body.auth_config else None,
        "support": {"access_enabled": False, "enabled_roles": [], "active_requests": []},
        "addons": preinstalled if version.generation == "v2" else {},
        "autoclusters": {"overrides": {}, "fallback_to_project_reservations": False, "updated_at": now},
    }
    return Object(KIND, identifier, project, body.name, row, parent_id=subnet.id, hidden=hidden)


def _ranges_fit(row: Json, subnet: Object) -> None:
    pods, services = row["cluster_cidr"], row["service_cluster_ip_range"]
    if overlap(pods, services):
        raise bad_request(f"cluster_cidr {pods} overlaps service_cluster_ip_range {services}")
    for key, cidr in (("cluster_cidr", pods), ("service_cluster_ip_range", services)):
        if overlap(cidr, subnet.body["cidr"]):
            raise bad_request(f"{key} {cidr} overlaps subnet {subnet.name} ({subnet.body['cidr']})")
    if ipaddress.IPv4Network(pods).prefixlen >= row["node_cidr_mask_size"]:
        raise bad_request(
            f"node_cidr_mask_size {row['node_cidr_mask_size']} leaves cluster_cidr {pods} no room for nodes"
        )


def _view(cloud: Cloud, item: Object) -> Json:
    return {**item.body, "node_pools": [pool.id for pool in cloud.store.all(pools.POOL, parent_id=item.id)]}


async def _create(cloud: Cloud, operation: Operation) -> None:
    await bring_up(cloud, existing(cloud, KIND, operation.resource_id))


def _created(cloud: Cloud, operation: Operation) -> Json:
    item = existing(cloud, KIND, operation.resource_id)
    came_up(cloud, item)
    return _view(cloud, item)


def _update(cloud: Cloud, item: Object, payload: Json) -> None:
    item.body |= payload
    item.body["updated_at"] = cloud.clock.stamp()


async def _delete(cloud: Cloud, operation: Operation) -> None:
    await cloud.planes.delete(operation.resource_id)


def _deleted(cloud: Cloud, operation: Operation) -> None:
    ended(cloud, operation.project_id, operation.resource_id)


FAMILY = Family(
    router,
    OPERATIONS,
    {
        "cluster.create": Work(_create, _created, discard(KIND), uses_control_plane=True),
        "cluster.update": updater(KIND, _view, _update),
        "cluster.delete": Work(_delete, _deleted, restore(KIND), uses_control_plane=True),
    },
)
