"""What a node pool is made of: its properties, and how they look on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from crusoe.provider.clusters import same_version
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.objects import ADOPT
from crusoe.provider.properties import Effect, Output, Property
from crusoe.provider.shapes import Field, Flag, ListOf, MapOf, Record, Text, Whole
from crusoe.provider.values import Value, Values

SIMPLE: Final = {
    "name": "name",
    "clusterId": "cluster_id",
    "type": "product_name",
    "version": "node_pool_version",
    "subnetId": "subnet_id",
    "ibPartitionId": "ib_partition_id",
    "transportPartitionId": "transport_partition_id",
    "nvlinkDomainId": "nvlink_domain_id",
    "sshPublicKey": "ssh_public_key",
    "placementPolicy": "placement_policy",
}
"""Properties that a create request takes as they are, with their names in it."""


def _reservation_fault(value: Mapping[str, Value]) -> str | None:
    given = [name for name in ("id", "selectionStrategy") if value.get(name) is not None]
    return None if len(given) == 1 else "must have either id or selectionStrategy"


def _bounds_fault(value: Mapping[str, Value]) -> str | None:
    low, high = value.get("min"), value.get("max")
    fits = isinstance(low, int) and isinstance(high, int) and low <= high and high > 0
    return None if fits else "min must be at most max, and max at least 1"


def _taints(value: Sequence[Value]) -> set[tuple[str, str, str]]:
    rows = [cast("Values", each) for each in value if isinstance(each, dict)]
    return {(str(row.get("key")), str(row.get("value") or ""), str(row.get("effect"))) for row in rows}


PROPERTIES: Final = (
    Property("name", Text(), "Name of the pool.", required=True, effect=Effect.REPLACE),
    Property("clusterId", Text(), "Id of the cluster.", required=True, effect=Effect.REPLACE),
    Property("type", Text(), "VM type, such as h100-80gb-sxm-ib.8x.", required=True, effect=Effect.REPLACE),
    Property("count", Whole(), "Number of nodes; left out with autoscaling."),
    Property(
        "version",
        Text(equal=same_version),
        "Version of the nodes; the newest that fits the cluster when left out.",
        computed=True,
    ),
    Property(
        "subnetId", Text(), "Id of the subnet; the cluster's when left out.", effect=Effect.REPLACE, computed=True
    ),
    Property(
        "ibPartitionId",
        Text(),
        "Id of the InfiniBand partition, for types with a fabric.",
        effect=Effect.REPLACE,
        write_only=True,
    ),
    Property(
        "transportPartitionId",
        Text(),
        "The partition under the API's newer name; give one of the two.",
        effect=Effect.REPLACE,
        write_only=True,
    ),
    Property("nvlinkDomainId", Text(), "Id of the NVLink domain (GB200).", effect=Effect.REPLACE, computed=True),
    Property("sshPublicKey", Text(), "SSH public key on the nodes.", effect=Effect.REPLACE, write_only=True),
    Property(
        "publicIpType",
        Text(("dynamic", "static", "none")),
        "Public addresses of the nodes: dynamic (the default), static or none.",
        effect=Effect.REPLACE,
        assumed="dynamic",
    ),
    Property("nodeLabels", MapOf(Text()), "Labels of new nodes.", assumed={}),
    Property(
        "nodeTaints",
        ListOf(
            Record(
                "NodeTaint",
                (
                    Field("key", Text(), "Key.", required=True),
                    Field("value", Text(), "Value; empty when left out."),
                    Field(
                        "effect",
                        Text(("NoSchedule", "PreferNoSchedule", "NoExecute")),
                        "NoSchedule, PreferNoSchedule or NoExecute.",
                        required=True,
                    ),
                ),
            ),
            equal=lambda one, other: _taints(one) == _taints(other),
        ),
        "Taints of new nodes.",
        assumed=[],
    ),
    Property(
        "ephemeralStorageForContainerd",
        Flag(),
        "Whether containerd keeps its data on the first local NVMe disk of new nodes.",
        assumed=False,
    ),
    Property(
        "placementPolicy",
        Text(("spread", "unspecified")),
        "Whether VMs are spread over hosts; without effect on GPU types.",
        effect=Effect.REPLACE,
        write_only=True,
        assumed="unspecified",
    ),
    Property(
        "reservation",
        Record(
            "NodePoolReservation",
            (
                Field("id", Text(), "Id of the reservation."),
                Field("selectionStrategy", Text(("lowest_cost", "on_demand")), "lowest_cost or on_demand."),
            ),
            fault=_reservation_fault,
        ),
        "Reservation that the VMs go into: its id, or a strategy at creation.",
        computed=True,
    ),
    Property(
        "autoscaling",
        Record(
            "NodePoolAutoscaling",
            (
                Field("min", Whole(), "Smallest number of nodes.", required=True),
                Field("max", Whole(1), "Largest number of nodes.", required=True),
            ),
            fault=_bounds_fault,
        ),
        "Bounds within which the autoscaler moves the number of nodes.",
    ),
    Property(
        "consentMode",
        Text(("auto", "propose", "off")),
        "Automatic repair on CMK v2: off when left out, and always sent.",
        assumed="off",
    ),
    Property(
        "allowScaleDown",
        Flag(),
        "Whether a lower count drains and deletes nodes (CMK v2).",
        assumed=False,
    ),
    Property(
        "minCount",
        Whole(),
        "With fewer running nodes the pool is an error; all that are asked for when left out.",
        effect=Effect.LOCAL,
    ),
    Property(
        "leaveVmsOnScaleDown",
        Flag(),
        "Consent to a lower count on CMK v1, which leaves the surplus VMs running and billed.",
        effect=Effect.LOCAL,
        assumed=False,
    ),
    Property(
        "drained",
        Flag(),
        "Whether the nodes are cordoned and their pods evicted, as before the pool is removed; false lets them take"
        " pods again.",
        write_only=True,
        assumed=False,
    ),
    ADOPT,
)
OUTPUTS: Final = (
    Output(
        "missingNodes",
        Whole(),
        "Nodes that could not be had when the pool was last created or updated; the next `up` asks for them again.",
        stable=False,
    ),
)


def taints_sent(value: Value) -> list[JsonObject]:
    """Return taints as the API takes them; an empty value is left out."""
    rows = [cast("Values", each) for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return [{name: row[name] for name in ("key", "value", "effect") if row.get(name)} for row in rows]


def taints_told(fields: JsonObject) -> Value:
    """Return a pool's taints without those that the platform itself sets."""
    rows = [cast("JsonObject", each) for each in cast("list[object]", fields.get("node_taints") or [])]
    taints: list[Value] = []
    for row in rows:
        key = text(row, "key") or ""
        if not key.startswith("crusoe.ai/"):
            value = text(row, "value")
            taint: Values = {"key": key, "effect": text(row, "effect") or ""}
            taints.append({**taint, "value": value} if value else taint)
    return taints


def bounds_sent(value: Value) -> JsonObject:
    """Return the autoscaler's bounds as the API takes them; switched off without any."""
    if not isinstance(value, dict):
        return {"enabled": False}
    return {"enabled": True, "min_node_size": value["min"], "max_node_size": value["max"]}


def bounds_told(fields: JsonObject) -> Values | None:
    """Return the autoscaler's bounds; None when it is switched off."""
    config = fields.get("autoscaling_config")
    if not isinstance(config, dict):
        return None
    row = cast("JsonObject", config)
    if row.get("enabled") is not True:
        return None
    low, high = row.get("min_node_size"), row.get("max_node_size")
    return {"min": low if isinstance(low, int) else 0, "max": high if isinstance(high, int) else 0}


def reservation_told(reservation_id: str | None, asked: Value) -> Values:
    """Return the reservation, unless a strategy was asked for, whose choice is the service's."""
    if isinstance(asked, dict) and "selectionStrategy" in asked:
        return {}
    return {"reservation": {"id": reservation_id} if reservation_id else None}


def nodes_behind(fields: JsonObject) -> int:
    """Return how many nodes were started before the pool's last change."""
    rows = cast("list[object]", fields.get("instance_details") or [])
    return sum(cast("JsonObject", row).get("using_latest_config") is False for row in rows if isinstance(row, dict))
