"""Look-ups: what the project is offered and what it may use, as functions of a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, cast

from crusoe.client import Client
from crusoe.provider import shapes
from crusoe.provider.clusters import generation_of
from crusoe.provider.existing import JsonObject, text, texts
from crusoe.provider.kind import PACKAGE
from crusoe.provider.shapes import Failure, Field, Flag, ListOf, Record, Text, Whole
from crusoe.provider.values import Value, Values


class Lookup(ABC):
    """A function.

    Attributes:
        name: such as `getQuotas`; its token is `crusoe:index:getQuotas`.
        description: for the schema.
        arguments: what it takes.
        results: what it returns.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[tuple[Field, ...]] = ()
    results: ClassVar[tuple[Field, ...]]

    @property
    def token(self) -> str:
        """The function's token."""
        return f"{PACKAGE}:index:{self.name}"

    def check(self, arguments: Values) -> list[Failure]:
        """Return every fault of the arguments at once."""
        return list(shapes.check_fields(self.arguments, arguments))

    @abstractmethod
    def call(self, client: Client, arguments: Values) -> Values:
        """Ask the API."""


def _query(arguments: Values, names: dict[str, str]) -> dict[str, str]:
    """Return the arguments that were given, as a query."""
    found: dict[str, str] = {}
    for name, key in names.items():
        value = arguments.get(name)
        if value is not None:
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _rows(answer: JsonObject, key: str) -> list[JsonObject]:
    rows = cast("list[object]", answer.get(key) or [])
    return [cast("JsonObject", row) for row in rows if isinstance(row, dict)]


def _number(fields: JsonObject, name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _word(fields: JsonObject, name: str) -> str:
    return text(fields, name) or ""


def _text(name: str, description: str, *, required: bool = True) -> Field:
    return Field(name, Text(), description, required=required)


def _whole(name: str, description: str) -> Field:
    return Field(name, Whole(), description, required=True)


def _list(name: str, record: Record, description: str) -> Field:
    return Field(name, ListOf(record), description, required=True)


class GetKubernetesVersions(Lookup):
    """Versions of clusters and node pools."""

    name = "getKubernetesVersions"
    description = "The versions of clusters and node pools that the project is offered, newest first."
    arguments = (
        _text("productName", "Only versions that fit this VM type.", required=False),
        Field("showDeprecated", Flag(), "Deprecated versions too."),
    )
    _version = Record(
        "KubernetesVersion",
        (
            _text("name", "Version, such as 1.33.4-cmk.43."),
            Field("generation", Text(), "CMK generation, v1 or v2."),
            Field("tags", ListOf(Text()), "Tags, such as latest.", required=True),
            Field("features", ListOf(Text()), "Supported features, such as autoclusters.", required=True),
        ),
    )
    results = (
        _list("clusterVersions", _version, "Versions of clusters."),
        _list("nodePoolVersions", _version, "Versions of node pools."),
    )

    def call(self, client: Client, arguments: Values) -> Values:
        """Ask the API."""
        names = {"productName": "product_name", "showDeprecated": "show_deprecated"}
        answer = client.get("kubernetes/versions", **_query(arguments, names))

        def versions(kind: str) -> Value:
            return [
                {
                    "name": _word(row, f"{kind}_version_name"),
                    "generation": generation_of(_word(row, f"{kind}_version_name")),
                    "tags": cast("Value", texts(row, "tags")),
                    "features": cast("Value", texts(row, "supported_features")),
                }
                for row in _rows(answer, f"kubernetes_{kind}_versions")
            ]

        return {"clusterVersions": versions("cluster"), "nodePoolVersions": versions("node_pool")}


class GetVmTypes(Lookup):
    """VM types."""

    name = "getVmTypes"
    description = "The VM types that the project can use."
    results = (
        _list(
            "vmTypes",
            Record(
                "VmType",
                (
                    _text("name", "Name, such as h100-80gb-sxm-ib.8x."),
                    _text("description", "In words."),
                    _whole("cpuCores", "vCPUs."),
                    _whole("memoryGb", "Memory in GB."),
                    _whole("diskGb", "Local disk in GB."),
                    _whole("gpus", "GPUs."),
                    _text("gpuType", "GPU model; empty without GPU."),
                ),
            ),
            "VM types.",
        ),
    )

    def call(self, client: Client, arguments: Values) -> Values:
        """Ask the API."""
        del arguments
        return {
            "vmTypes": [
                {
                    "name": _word(row, "product_name"),
                    "description": _word(row, "description"),
                    "cpuCores": _number(row, "cpu_cores"),
                    "memoryGb": _number(row, "memory_gb"),
                    "diskGb": _number(row, "disk_gb"),
                    "gpus": _number(row, "num_gpu"),
                    "gpuType": _word(row, "gpu_type"),
                }
                for row in client.list("compute/vms/types")
            ]
        }


class GetCapacities(Lookup):
    """Free VMs."""

    name = "getCapacities"
    description = "How many VMs of each type are free in each location now. Capacity is not quota."
    arguments = (
        _text("productName", "Only this VM type.", required=False),
        _text("location", "Only this location.", required=False),
    )
    results = (
        _list(
            "capacities",
            Record(
                "Capacity",
                (
                    _text("location", "Location."),
                    _text("type", "VM type."),
                    _whole("quantity", "Free VMs."),
                    _whole("numSlices", "What one VM takes of its quota."),
                    _text("quotaType", "The quota that it counts against."),
                ),
            ),
            "Capacity by location and type.",
        ),
    )

    def call(self, client: Client, arguments: Values) -> Values:
        """Ask the API."""
        query = _query(arguments, {"productName": "product_name", "location": "location"})
        return {
            "capacities": [
                {
                    "location": _word(row, "location"),
                    "type": _word(row, "type"),
                    "quantity": _number(row, "quantity"),
                    "numSlices": _number(row, "num_slices"),
                    "quotaType": _word(row, "quota_type"),
                }
                for row in client.list("/capacities", **query)
            ]
        }


class GetQuotas(Lookup):
    """Quotas."""

    name = "getQuotas"
    description = "What the project may use and does use. Quota is not capacity."
    results = (
        _list(
            "quotas",
            Record(
                "Quota",
                (
                    _text("name", "Name of the quota."),
                    _whole("max", "The most that may be used."),
                    _whole("used", "What is used."),
                    _whole("available", "What is left."),
                ),
            ),
            "Quotas, in slices of a VM family or GiB of a disk type.",
        ),
    )

    def call(self, client: Client, arguments: Values) -> Values:
        """Ask the API."""
        del arguments
        return {
            "quotas": [
                {
                    "name": _word(row, "name"),
                    "max": _number(row, "max"),
                    "used": _number(row, "used"),
                    "available": _number(row, "available"),
                }
                for row in client.list("quotas")
            ]
        }


class GetIbNetworks(Lookup):
    """InfiniBand networks."""

    name = "getIbNetworks"
    description = "The InfiniBand networks of the project, with their capacity."
    results = (
        _list(
            "ibNetworks",
            Record(
                "IbNetwork",
                (
                    _text("id", "Id."),
                    _text("name", "Name."),
                    _text("location", "Location."),
                    _list(
                        "capacities",
                        Record(
                            "IbNetworkCapacity",
                            (_text("sliceType", "VM type."), _whole("quantity", "Free GPUs of it.")),
                        ),
                        "Capacity by VM type.",
                    ),
                ),
            ),
            "InfiniBand networks.",
        ),
    )

    def call(self, client: Client, arguments: Values) -> Values:
        """Ask the API."""
        del arguments
        return {
            "ibNetworks": [
                {
                    "id": _word(row, "id"),
                    "name": _word(row, "name"),
                    "location": _word(row, "location"),
                    "capacities": [
                        {"sliceType": _word(each, "slice_type"), "quantity": _number(each, "quantity")}
                        for each in _rows(row, "capacities")
                    ],
                }
                for row in client.list("networking/ib-networks")
            ]
        }


LOOKUPS = (GetKubernetesVersions(), GetVmTypes(), GetCapacities(), GetQuotas(), GetIbNetworks())
