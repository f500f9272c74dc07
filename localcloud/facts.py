"""The facts of the local cloud, read from `facts/*.yaml`, as typed records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Literal

import yaml

from localcloud.control_plane import Generation

_V1_VERSION = re.compile(r"\d+\.\d+\.\d+-cmk\.\d+.*")
_V2_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class VmType:
    """A VM type; `slices` is how much of its family's quota and stock one VM takes."""

    name: str
    family: str
    slices: int
    cpu: int
    memory_gb: int
    disk_gb: int
    gpus: int
    gpu_vendor: Literal["nvidia", "amd"] | None
    gpu_model: str | None
    gpu_memory_gb: int
    fabric: Literal["infiniband", "roce"] | None
    nvlink: bool
    architecture: Literal["amd64", "arm64"]
    cpu_type: str
    whole_host: bool


@dataclass(frozen=True)
class Location:
    """A location with its default subnet and its stock in slices by family."""

    name: str
    default_subnet: str
    nfs_vips: tuple[str, ...]
    capacity: Mapping[str, int]


@dataclass(frozen=True)
class IbNetwork:
    """An InfiniBand network with its stock in slices by VM type."""

    id: str
    name: str
    location: str
    capacity: Mapping[str, int]


@dataclass(frozen=True)
class NvlinkDomain:
    """An NVLink domain of GB200 hosts."""

    id: str
    name: str
    location: str
    nodes: int


@dataclass(frozen=True)
class Reservation:
    """Reserved VMs of one product line."""

    id: str
    project_id: str
    product_line: str
    locations: tuple[str, ...]
    quantity: int


@dataclass(frozen=True)
class Version:
    """A cluster or node pool version."""

    name: str
    tags: tuple[str, ...]
    features: frozenset[str]

    @property
    def generation(self) -> Generation:
        """Which CMK generation the version belongs to."""
        return "v1" if _V1_VERSION.fullmatch(self.name) else "v2"

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts versions by age."""
        return version_order(self.name)


@dataclass(frozen=True)
class Brings:
    """What an add-on adds to the nodes it fits."""

    vendor: str
    fabric: str | None
    resource: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class AddOn:
    """An add-on of the catalogue; versions newest first."""

    name: str
    description: str
    category: Literal["preinstalled", "optional"]
    feature: str | None
    versions: tuple[str, ...]
    brings: Brings | None


@dataclass(frozen=True)
class ManagedSlurm:
    """What Crusoe Managed Slurm makes of a create call, and the CMK cluster that it puts behind it."""

    version: str
    login_node_type: str
    login_replicas: int
    home_volume_size: str
    cluster_version: str
    cluster_add_ons: tuple[str, ...]
    compute_label: str


def generation_of(version: str) -> Generation | None:
    """The CMK generation that a version's form tells, or None when it has neither form."""
    if _V1_VERSION.fullmatch(version):
        return "v1"
    return "v2" if _V2_VERSION.fullmatch(version) else None


def version_order(version: str) -> tuple[int, ...]:
    """The numbers in a version, so that versions sort by age."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


class Facts:
    """All facts, each file read when first asked for."""

    @cached_property
    def vm_types(self) -> Mapping[str, VmType]:
        """VM types by name."""
        return {t.name: t for family in _load("vm_types")["families"] for t in _vm_types(family)}

    @cached_property
    def locations(self) -> Mapping[str, Location]:
        """Locations by name."""
        return {
            name: Location(name, row["default_subnet"], tuple(row["nfs_vips"]), row["capacity"])
            for name, row in self._places["locations"].items()
        }

    @cached_property
    def ib_networks(self) -> Mapping[str, IbNetwork]:
        """InfiniBand networks by id."""
        return {row["id"]: IbNetwork(**row) for row in self._places["ib_networks"]}

    @cached_property
    def nvlink_domains(self) -> Mapping[str, NvlinkDomain]:
        """NVLink domains by id."""
        return {row["id"]: NvlinkDomain(**row) for row in self._places["nvlink_domains"]}

    @cached_property
    def organization(self) -> Mapping[str, str]:
        """The organization's `id` and `name`."""
        return self._account["organization"]

    @cached_property
    def projects(self) -> Mapping[str, str]:
        """Project ids by name."""
        return {row["name"]: row["id"] for row in self._account["projects"]}

    @cached_property
    def quotas(self) -> Mapping[str, int]:
        """The most of each quota that a project may use."""
        return self._account["quotas"]

    @cached_property
    def reservations(self) -> Mapping[str, Reservation]:
        """Reservations by id."""
        return {
            row["id"]: Reservation(
                row["id"],
                self.projects[row["project"]],
                row["product_line"],
                tuple(row["locations"]),
                row["quantity"],
            )
            for row in self._account["reservations"]
        }

    @cached_property
    def cluster_versions(self) -> Mapping[str, Version]:
        """Cluster versions by name."""
        return {row["name"]: _version(row) for row in self._kubernetes["clusters"]}

    @cached_property
    def node_pool_versions(self) -> Mapping[str, Version]:
        """Node pool versions by name."""
        return {row["name"]: _version(row) for row in self._kubernetes["node_pools"]}

    @cached_property
    def add_ons(self) -> Mapping[str, AddOn]:
        """Add-ons by name."""
        return {name: _add_on(name, row) for name, row in self._kubernetes["add_ons"].items()}

    @cached_property
    def autoclusters_issues(self) -> Mapping[str, str]:
        """The platform's default action by issue name."""
        return _load("autoclusters")["issues"]

    @cached_property
    def slurm(self) -> ManagedSlurm:
        """Crusoe Managed Slurm."""
        row = _load("slurm")
        cluster = row["cluster"]
        return ManagedSlurm(
            version=row["version"],
            **row["defaults"],
            cluster_version=cluster["version"],
            cluster_add_ons=tuple(cluster["add_ons"]),
            compute_label=row["compute_label"],
        )

    @cached_property
    def _places(self) -> dict[str, Any]:
        return _load("locations")

    @cached_property
    def _account(self) -> dict[str, Any]:
        return _load("account")

    @cached_property
    def _kubernetes(self) -> dict[str, Any]:
        return _load("kubernetes")


def _load(name: str) -> dict[str, Any]:
    text = (resources.files("localcloud") / "facts" / f"{name}.yaml").read_text(encoding="utf-8")
    # The C loader, where it is built in, keeps the start short.
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe


def _vm_types(family: dict[str, Any]) -> list[VmType]:
    gpu, one = family.get("gpu"), family["slice"]
    return [
        VmType(
            name=f"{family['family']}.{size}x",
            family=family["family"],
            slices=size,
            cpu=one["cpu"] * size,
            memory_gb=one["memory_gb"] * size,
            disk_gb=one["disk_gb"] * size,
            gpus=size if gpu else 0,
            gpu_vendor=gpu["vendor"] if gpu else None,
            gpu_model=gpu["model"] if gpu else None,
            gpu_memory_gb=gpu["memory_gb"] if gpu else 0,
            fabric=family.get("fabric"),
            nvlink=family.get("nvlink", False),
            architecture=family.get("architecture", "amd64"),
            cpu_type=family["cpu_type"],
            whole_host=size == family["whole_host"],
        )
        for size in family["sizes"]
    ]


def _version(row: dict[str, Any]) -> Version:
    return Version(row["name"], tuple(row.get("tags", ())), frozenset(row["features"]))


def _add_on(name: str, row: dict[str, Any]) -> AddOn:
    brings = row.get("brings")
    return AddOn(
        name=name,
        description=row["description"],
        category=row["category"],
        feature=row.get("feature"),
        versions=tuple(row["versions"]),
        brings=Brings(brings["vendor"], brings.get("fabric"), brings["resource"], brings.get("labels", {}))
        if brings
        else None,
    )
