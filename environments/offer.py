"""What the cloud offers a project now: locations, versions, VM types, stock and quotas, and which names are taken.

Stock and quota are different things and stay apart: stock comes and goes, a quota is asked of Crusoe's support.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crusoe.client import Client
from crusoe.provider import supply
from crusoe.provider.lookups import GetCapacities, GetIbNetworks, GetKubernetesVersions, GetVmTypes
from crusoe.provider.supply import Quota, Stock
from crusoe.rules.values import items, table, text, whole

NAMED = {
    "network": "networking/vpc-networks",
    "subnet": "networking/vpc-subnets",
    "cluster": "kubernetes/clusters",
    "node pool": "kubernetes/nodepools",
}
"""Kinds whose physical names a new stack would need, with where they are listed."""


@dataclass(frozen=True)
class IbNetwork:
    """An InfiniBand network; `free` maps VM types to free GPUs."""

    id: str
    name: str
    location: str
    free: Mapping[str, int]


@dataclass(frozen=True)
class Offer:
    """One moment's answers.

    Attributes:
        endpoint, project: where they come from; the project by its name, or its id where it has none.
        locations: names.
        versions: those that clusters and node pools both have and that are not deprecated.
        autoclusters: those of them whose features name AutoClusters.
        vm_types: names.
        stock: free VMs of each type in each location that has it.
        quotas: by name, in slices of a VM family.
        ib_networks: all of the project.
        cidrs: ranges of the project's networks.
        taken: names by kind, as in `NAMED`.
    """

    endpoint: str
    project: str
    locations: tuple[str, ...]
    versions: tuple[str, ...]
    autoclusters: frozenset[str]
    vm_types: tuple[str, ...]
    stock: tuple[Stock, ...]
    quotas: Mapping[str, Quota]
    ib_networks: tuple[IbNetwork, ...] = ()
    cidrs: tuple[str, ...] = ()
    taken: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def of_type(self, vm_type: str) -> list[Stock]:
        """Return where a VM type is offered."""
        return [one for one in self.stock if one.vm_type == vm_type]

    def here(self, vm_type: str, location: str) -> Stock | None:
        """Return a VM type's stock in a location, None where the location does not have the type."""
        return next((one for one in self.of_type(vm_type) if one.location == location), None)


def read(client: Client) -> Offer:
    """Ask the cloud; nothing but GETs.

    Raises:
        CrusoeError: one of the questions got no answer.
    """
    project = client.project
    versions = GetKubernetesVersions().call(client, {})
    clusters = [table(each) for each in items(versions["clusterVersions"]) if "deprecated" not in _tags(each)]
    of_pools = {text(table(each).get("name")) for each in items(versions["nodePoolVersions"])}
    networks = client.list(NAMED["network"])
    return Offer(
        endpoint=client.endpoint,
        project=project.name or project.id,
        locations=_texts(client.get("/locations").get("items")),
        versions=tuple(name for each in clusters if (name := text(each.get("name"))) and name in of_pools),
        autoclusters=frozenset(
            name for each in clusters if (name := text(each.get("name"))) and "autoclusters" in _texts(each["features"])
        ),
        vm_types=tuple(
            name for each in items(GetVmTypes().call(client, {})["vmTypes"]) if (name := text(table(each).get("name")))
        ),
        stock=tuple(
            Stock(
                text(row.get("location")) or "",
                text(row.get("type")) or "",
                whole(row.get("quantity")) or 0,
                whole(row.get("numSlices")) or 1,
                text(row.get("quotaType")) or "",
            )
            for row in map(table, items(GetCapacities().call(client, {})["capacities"]))
        ),
        quotas=supply.quotas(client),
        ib_networks=tuple(
            IbNetwork(
                text(row.get("id")) or "",
                text(row.get("name")) or "",
                text(row.get("location")) or "",
                {
                    kind: whole(one.get("quantity")) or 0
                    for one in map(table, items(row.get("capacities")))
                    if (kind := text(one.get("sliceType")))
                },
            )
            for row in map(table, items(GetIbNetworks().call(client, {})["ibNetworks"]))
        ),
        cidrs=tuple(cidr for one in networks if (cidr := text(one.get("cidr")))),
        taken={
            kind: frozenset(
                name
                for one in (networks if kind == "network" else client.list(path))
                if (name := text(one.get("name")))
            )
            for kind, path in NAMED.items()
        },
    )


def _tags(version: object) -> tuple[str, ...]:
    return _texts(table(version).get("tags"))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in items(value) if isinstance(each, str))
