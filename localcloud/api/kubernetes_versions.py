"""Versions of clusters and node pools that a project is offered, with their features."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from localcloud.api.family import PROJECT, CloudDep, Family, Project
from localcloud.api.supply import known_vm_type
from localcloud.api.wire import Answer, Filters
from localcloud.cloud import Cloud
from localcloud.errors import bad_request
from localcloud.facts import Version, generation_of
from localcloud.store import Json

router = APIRouter(prefix=f"{PROJECT}/kubernetes", tags=["Kubernetes versions"])
# How many minor versions a node may be older than its API server: the Kubernetes version skew policy.
_SKEW = 3


class VersionDetails(Answer):
    """The parts of a version; the API writes these keys with capitals."""

    major_minor: str = Field(alias="MajorMinorVersion")
    patch: str = Field(alias="PatchVersion")
    build: str = Field(alias="BuildVersion")


class ClusterVersion(Answer):
    """A version that a cluster may have."""

    cluster_version_name: str
    tags: list[str]
    version_details: VersionDetails
    supported_features: list[str]


class NodePoolVersion(Answer):
    """A version that a node pool may have."""

    node_pool_version_name: str
    tags: list[str]
    version_details: VersionDetails
    supported_features: list[str]


class VersionLists(Answer):
    """Versions of clusters and of node pools."""

    kubernetes_cluster_versions: list[ClusterVersion]
    kubernetes_node_pool_versions: list[NodePoolVersion]


class VersionFilters(Filters):
    """Filters of the version lists."""

    show_deprecated: bool = False
    product_name: str | None = None


@router.get("/versions", response_model=VersionLists)
async def list_versions(_project: Project, cloud: CloudDep, filters: Annotated[VersionFilters, Query()]) -> Json:
    """Versions that are offered, newest first."""
    amd = bool(filters.product_name) and (
        known_vm_type(cloud, filters.product_name or "", "product_name").gpu_vendor == "amd"
    )

    def shown(versions: Iterable[Version]) -> list[Version]:
        kept = (
            version
            for version in versions
            if cloud.offered in ("both", version.generation)
            and (filters.show_deprecated or "deprecated" not in version.tags)
            and (not amd or _fits_amd(cloud, version))
        )
        return sorted(kept, key=lambda version: version.order, reverse=True)

    return {
        "kubernetes_cluster_versions": [
            {"cluster_version_name": version.name, **_common(version)}
            for version in shown(cloud.facts.cluster_versions.values())
        ],
        "kubernetes_node_pool_versions": [
            {"node_pool_version_name": version.name, **_common(version)}
            for version in shown(cloud.facts.node_pool_versions.values())
        ],
    }


def offered_cluster_version(cloud: Cloud, name: str) -> Version:
    """A version that a new cluster may have; raises 400."""
    if generation_of(name) is None:
        raise bad_request(f"version: {name!r} is neither like 1.33.4-cmk.43 (CMK v1) nor like 1.35.5 (CMK v2)")
    version = cloud.facts.cluster_versions.get(name)
    if version is None or cloud.offered not in ("both", version.generation):
        known = ", ".join(
            v.name for v in cloud.facts.cluster_versions.values() if cloud.offered in ("both", v.generation)
        )
        raise bad_request(f"version: {name} is not offered; offered are {known}")
    return version


def newest_pool_version(cloud: Cloud, cluster_version: str) -> str:
    """The newest node pool version that fits a cluster."""
    fitting = [v for v in cloud.facts.node_pool_versions.values() if _misfit(v, cluster_version) is None]
    return max(fitting, key=lambda version: version.order).name


def fitting_pool_version(cloud: Cloud, name: str, cluster_version: str) -> Version:
    """A node pool version that fits a cluster; raises 400."""
    version = cloud.facts.node_pool_versions.get(name)
    if version is None:
        raise bad_request(f"node_pool_version: {name!r} is not offered; see GET .../kubernetes/versions")
    if misfit := _misfit(version, cluster_version):
        raise bad_request(f"node_pool_version: {name} does not fit a cluster of version {cluster_version}: {misfit}")
    return version


def _misfit(version: Version, cluster_version: str) -> str | None:
    cluster = Version(cluster_version, (), frozenset())
    if version.generation != cluster.generation:
        return f"it belongs to CMK {version.generation}, the cluster to CMK {cluster.generation}"
    if version.order[:3] > cluster.order[:3]:
        return "it is newer"
    if version.order[1] < cluster.order[1] - _SKEW:
        return f"it is more than {_SKEW} minor versions older"
    return None


def _fits_amd(cloud: Cloud, version: Version) -> bool:
    known = cloud.facts.cluster_versions.get(version.name)
    return known is not None and "amd_gpus" in known.features


def _common(version: Version) -> Json:
    numbers = version.order
    build = version.name.partition("-")[2]
    return {
        "tags": list(version.tags),
        "version_details": {
            "MajorMinorVersion": f"{numbers[0]}.{numbers[1]}",
            "PatchVersion": str(numbers[2]),
            "BuildVersion": build,
        },
        "supported_features": sorted(version.features),
    }


FAMILY = Family(router)
