"""Add-ons of CMK v2 clusters, installed and removed after creation."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from localcloud import pools
from localcloud.api.family import PROJECT, CloudDep, Family, Project, existing
from localcloud.api.kubernetes_clusters import find_cluster, only_generation, running_cluster
from localcloud.api.wire import Answer, Body, Filters
from localcloud.cloud import Cloud
from localcloud.errors import bad_request, not_found
from localcloud.facts import AddOn
from localcloud.operations import Operation, Work
from localcloud.store import Json, Object

OPERATIONS = "kubernetes/addons"
_CATEGORY = {"preinstalled": "core", "optional": "optional"}

router = APIRouter(prefix=f"{PROJECT}/kubernetes", tags=["Add-ons"])


class Wanted(Body):
    """An add-on to install; without a version, the catalogue's default for the cluster."""

    addon_type: str
    version: str | None = None


class Install(Body):
    """Add-ons to install."""

    addons: Annotated[list[Wanted], Field(min_length=1)]


class AddOnView(Answer):
    """An add-on of a cluster; `version` is what is wanted."""

    addon_type: str
    category: str
    version: str
    installed_version: str
    status: str
    ready: bool


class AddOnList(Answer):
    """Add-ons of a cluster."""

    addons: list[AddOnView]


class Removal(Answer):
    """An add-on that is being removed."""

    addon_type: str
    status: str


class AvailableVersion(Answer):
    """A version of an add-on."""

    version: str


class Available(Answer):
    """An add-on of the catalogue."""

    addon_type: str
    category: str
    description: str
    removable: bool
    versions: list[AvailableVersion]


class AvailableList(Answer):
    """One page of the catalogue."""

    addons: list[Available]
    next_page_token: str


class Page(Filters):
    """Which page is wanted."""

    kubernetes_version: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 20
    page_token: str | None = None


@router.get("/addons/available", response_model=AvailableList)
async def list_available(_project: Project, cloud: CloudDep, page: Annotated[Page, Query()]) -> Json:
    """The catalogue."""
    return _available(cloud, page)


@router.get("/clusters/{cluster_id}/addons/available", response_model=AvailableList)
async def list_available_for_cluster(
    cluster_id: str, project: Project, cloud: CloudDep, page: Annotated[Page, Query()]
) -> Json:
    """The catalogue for a cluster."""
    _v2_cluster(cloud, project, cluster_id)
    return _available(cloud, page)


@router.get("/clusters/{cluster_id}/addons", response_model=AddOnList)
async def list_addons(cluster_id: str, project: Project, cloud: CloudDep) -> Json:
    """Add-ons of a cluster."""
    return _view(cloud, _v2_cluster(cloud, project, cluster_id))


@router.post("/clusters/{cluster_id}/addons", response_model=AddOnList)
async def install_addons(cluster_id: str, body: Install, project: Project, cloud: CloudDep) -> Json:
    """Install add-ons, or change their versions. They are ready some time after the answer."""
    cluster = _v2_cluster(cloud, project, cluster_id)
    running_cluster(cloud, project, cluster_id)
    chosen = {row.addon_type: _version(_known(cloud, row.addon_type), row.version) for row in body.addons}
    with cloud.store.transaction():
        for name, version in chosen.items():
            present = cluster.hidden["addons"].get(name, {"installed_version": ""})
            cluster.hidden["addons"][name] = {**present, "version": version}
        cloud.store.save(cluster)
        operation = cloud.operations.open(
            OPERATIONS, "addons.install", project, f"{cluster.id}/addons", {"id": cluster.id}
        )
    await cloud.operations.launch(operation)
    return _view(cloud, find_cluster(cloud, project, cluster_id))


@router.delete("/clusters/{cluster_id}/addons/{addon_type}", response_model=Removal)
async def remove_addon(cluster_id: str, addon_type: str, project: Project, cloud: CloudDep) -> Json:
    """Remove an add-on."""
    cluster = _v2_cluster(cloud, project, cluster_id)
    if addon_type not in cluster.hidden["addons"]:
        raise not_found("add-on", addon_type)
    if _known(cloud, addon_type).category == "preinstalled":
        raise bad_request(f"addon_type: {addon_type} is part of every cluster and can't be removed")
    with cloud.store.transaction():
        cluster.hidden["addons"][addon_type]["version"] = ""
        cloud.store.save(cluster)
        operation = cloud.operations.open(
            OPERATIONS, "addons.install", project, f"{cluster.id}/addons", {"id": cluster.id}
        )
    await cloud.operations.launch(operation)
    return {"addon_type": addon_type, "status": "removing"}


def _v2_cluster(cloud: Cloud, project: str, cluster_id: str) -> Object:
    cluster = find_cluster(cloud, project, cluster_id)
    only_generation(cluster, "v2", "changing add-ons after creation")
    return cluster


def _known(cloud: Cloud, name: str) -> AddOn:
    add_on = cloud.facts.add_ons.get(name)
    if add_on is None:
        raise bad_request(f"addon_type: {name!r} is unknown; known are {', '.join(cloud.facts.add_ons)}")
    return add_on


def _version(add_on: AddOn, wanted: str | None) -> str:
    if wanted is not None and wanted not in add_on.versions:
        raise bad_request(f"version: {add_on.name} has no version {wanted}; known are {', '.join(add_on.versions)}")
    return wanted or add_on.versions[0]


def _available(cloud: Cloud, page: Page) -> Json:
    catalogue = list(cloud.facts.add_ons.values())
    start = int(page.page_token) if page.page_token and page.page_token.isdecimal() else 0
    end = start + page.page_size
    return {
        "addons": [
            {
                "addon_type": add_on.name,
                "category": add_on.category,
                "description": add_on.description,
                "removable": add_on.category != "preinstalled",
                "versions": [{"version": version} for version in add_on.versions],
            }
            for add_on in catalogue[start:end]
        ],
        "next_page_token": str(end) if end < len(catalogue) else "",
    }


def _view(cloud: Cloud, cluster: Object) -> Json:
    rows: list[Json] = []
    for name, row in cluster.hidden["addons"].items():
        ready = row["version"] == row["installed_version"]
        rows.append(
            {
                "addon_type": name,
                "category": _CATEGORY[cloud.facts.add_ons[name].category],
                "version": row["version"],
                "installed_version": row["installed_version"],
                "status": "installed" if ready else "installing" if row["version"] else "removing",
                "ready": ready,
            }
        )
    return {"addons": rows}


def _install(cluster: Object) -> None:
    """Make the wanted versions the installed ones, and drop what is no longer wanted."""
    cluster.hidden["addons"] = {
        name: {"version": row["version"], "installed_version": row["version"]}
        for name, row in cluster.hidden["addons"].items()
        if row["version"]
    }


async def _act(cloud: Cloud, operation: Operation) -> None:
    cluster = existing(cloud, pools.CLUSTER, operation.payload["id"])
    _install(cluster)
    await cloud.planes.update(pools.cluster_spec(cluster))
    for pool in cloud.store.all(pools.POOL, parent_id=cluster.id):
        specs = [pools.node_spec(cloud, cluster, pool, vm) for vm in pools.staying(cloud, pool)]
        await cloud.planes.apply_nodes(cluster.id, specs)


def _settle(cloud: Cloud, operation: Operation) -> None:
    cluster = existing(cloud, pools.CLUSTER, operation.payload["id"])
    _install(cluster)
    cloud.store.save(cluster)


FAMILY = Family(router, works={"addons.install": Work(_act, _settle, uses_control_plane=True)})
