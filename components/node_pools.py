"""The platform's node pools: GPU pools for work, and at least one CPU pool for the cluster's own pods.

Owns the pools and their numbers. Leaves alone the nodes: which VMs a pool consists of, how many are ready and what a
repair replaced are the service's business and never drift; with autoscaling, neither is the number of nodes.

What breaks if violated: name, type, subnet, partition and SSH key are fixed at creation, so a change replaces the pool
with all its nodes. Labels, taints and version of a changed pool reach new nodes only. A pool leaves in two steps, with
`retire` first (docs/concepts.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi
from pydantic import Field

from components.cluster import Cluster
from components.naming import PhysicalName, physical_name
from components.network import Network, Uuid
from components.settings import Plain, Settings
from crusoe import catalog
from crusoe.resources import KubernetesNodePool
from crusoe.rules import autoclusters, names, pool_size, versions
from crusoe.rules import cluster as cluster_rules
from crusoe.rules import node_pools as rules
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text


class AutoscalingSettings(Settings):
    """Bounds within which the cluster autoscaler owns the number of nodes."""

    min: int = Field(description="Fewest nodes.", examples=[2])
    max: int = Field(description="Most nodes.", examples=[8])


class ReservationSettings(Settings):
    """Which reserved capacity the pool's VMs use: one reservation, or a way to pick one."""

    id: Uuid | None = Field(
        default=None, description="Reservation to use.", examples=["5f0c9d5e-7d3c-4a39-9a8a-0d2f7d2c1b11"]
    )
    selection_strategy: str | None = Field(
        default=None,
        description="How Crusoe picks: `lowest_cost` looks for a reservation first, `on_demand` uses none.",
        examples=["lowest_cost"],
        json_schema_extra={"enum": [*rules.SELECTION_STRATEGIES, None]},
    )


class TaintSettings(Settings):
    """A taint of each node of the pool."""

    key: str = Field(description="Key, with a prefix of your own.", examples=["example.com/dedicated"])
    value: str = Field(default="", description="Value.", examples=["training"])
    effect: str = Field(
        description="What happens to pods that do not tolerate it.",
        examples=["NoSchedule"],
        json_schema_extra={"enum": list(rules.EFFECTS)},
    )


class NodePoolSettings(Settings):
    """One pool: nodes of one VM type."""

    type: str = Field(
        description="VM type. GPU pools should have whole hosts: AutoClusters repairs no slices. A change replaces the "
        "pool.",
        examples=["h100-80gb-sxm-ib.8x"],
    )
    count: int | None = Field(
        default=None, description="Number of nodes; left out with `autoscaling`, else needed.", examples=[2]
    )
    autoscaling: AutoscalingSettings | None = Field(
        default=None,
        description="Lets the cluster autoscaler own the number of nodes. CMK v1 keeps no bounds in its API: there "
        "`up` says the argument to give to the autoscaler.",
        examples=[{"min": 2, "max": 8}],
    )
    reserve: int = Field(
        default=0,
        description="Spares among the nodes: work is planned for the others, so that a repair finds a place.",
        examples=[1],
    )
    min_count: int | None = Field(
        default=None,
        description="Nodes without which `up` fails when capacity is short; by default all but the `reserve`. With "
        "fewer than asked for, but not fewer than this, `up` warns, and the next one tops the pool up.",
        examples=[2],
    )
    name: str | None = Field(
        default=None, description="Name in Crusoe Cloud, by default `<stack>-<key>`.", examples=["research-train"]
    )
    version: str | None = Field(
        default=None,
        description="Version of the nodes' image, by default the cluster's. A change reaches new nodes only.",
        examples=["1.33.4-cmk.43"],
    )
    retire: bool = Field(
        default=False,
        description="First of two steps to remove the pool: `up` cordons its nodes, evicts their pods and drops its "
        "protection. Then take the pool out of the settings.",
        examples=[True],
    )
    node_labels: Mapping[str, str] = Field(
        default={},
        description="Labels of the nodes. A change reaches new nodes only.",
        examples=[{"example.com/team": "vision"}],
    )
    node_taints: tuple[TaintSettings, ...] = Field(
        default=(),
        description="Taints of the nodes. A change reaches new nodes only.",
        examples=[[{"key": "example.com/dedicated", "value": "training", "effect": "NoSchedule"}]],
    )
    reservation: ReservationSettings | None = Field(
        default=None, description="Reserved capacity to use.", examples=[{"selectionStrategy": "lowest_cost"}]
    )
    placement_policy: str | None = Field(
        default=None,
        description="`spread` puts the VMs on different hosts; for CPU types only.",
        examples=["spread"],
        json_schema_extra={"enum": [*rules.PLACEMENT_POLICIES, None]},
    )
    public_ip_type: str = Field(
        default="none",
        description="Public IPs of the nodes. With `none` they reach out through the NAT gateway and nothing reaches "
        "in. A change replaces the pool.",
        examples=["none"],
        json_schema_extra={"enum": list(rules.PUBLIC_IP_TYPES)},
    )
    ssh_public_key: str | None = Field(
        default=None,
        description="Key that may log in to the nodes. A change replaces the pool.",
        examples=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample platform-team"],
    )
    ephemeral_storage_for_containerd: bool | None = Field(
        default=None,
        description="Keep images and container layers on the first local NVMe. A change reaches new nodes only.",
        examples=[True],
    )
    transport_partition_id: Uuid | None = Field(
        default=None,
        description="Existing InfiniBand or RoCE partition to join instead of the platform's own. A change replaces "
        "the pool.",
        examples=["3f6c9f0e-22d5-4a0c-8d9b-7b1f6d0a9c55"],
    )
    nvlink_domain_id: Uuid | None = Field(
        default=None,
        description="NVLink domain of GB200 hosts. A change replaces the pool.",
        examples=["9b2e0a44-4d36-4d6a-9f0e-5b8f1c7a2d10"],
    )
    consent_mode: str | None = Field(
        default=None,
        description="Consent to repairs, CMK v2 only, where it is `off` unless set: `propose` asks first, `auto` "
        "replaces nodes without asking.",
        examples=["auto"],
        json_schema_extra={"enum": [*rules.CONSENT_MODES, None]},
    )
    allow_scale_down: bool | None = Field(
        default=None,
        description="Lets a lower count drain and delete nodes, CMK v2 only. Without it a lower count is refused.",
        examples=[True],
    )
    leave_vms_on_scale_down: bool | None = Field(
        default=None,
        description="Consent, CMK v1 only, to what a lower count does there: the VMs stay, and cost, until someone "
        "deletes them. Without it a lower count is refused.",
        examples=[True],
    )


def findings(
    pools: Plain, path: str, stack: str, *, cluster_version: object, infiniband: bool, infiniband_path: str
) -> Iterator[Finding]:
    """Check all pools; `infiniband` says whether the platform has a partition, which is set at `infiniband_path`."""
    yield from names.reserved(path, pools)
    yield from names.unique(
        {f"{path}.{key}.name": text(table(pool).get("name")) or f"{stack}-{key}" for key, pool in pools.items()}
    )
    yield from rules.system_pool(path, {key: pool for key, pool in pools.items() if not table(pool).get("retire")})
    for key, each in pools.items():
        pool, place = table(each), f"{path}.{key}"
        yield from names.physical(place, stack, key, pool.get("name"))
        yield from _partition_findings(pool, place, infiniband=infiniband, infiniband_path=infiniband_path)
        yield from rules.pool(place, pool, cluster_version=cluster_version)
        yield from cluster_rules.pool_version(f"{place}.version", pool.get("version"), cluster_version)
        yield from pool_size.declared(place, pool)
        yield from pool_size.reserve(f"{place}.reserve", pool.get("reserve"), pool)
        yield from autoclusters.consent(f"{place}.consentMode", pool.get("type"), pool.get("consentMode"))


def _partition_findings(pool: Plain, place: str, *, infiniband: bool, infiniband_path: str) -> list[Finding]:
    """A type with InfiniBand joins the platform's partition or one of its own, RoCE one of its own, others none."""
    kind = catalog.vm_type(pool.get("type"))
    own = pool.get("transportPartitionId") is not None
    joins_platforms = kind is not None and kind.fabric == "infiniband" and not own
    return rules.fabric(
        f"{place}.type",
        pool.get("type"),
        has_partition=infiniband if joins_platforms else own,
        partition_path=infiniband_path if joins_platforms else f"{place}.transportPartitionId",
    )


def most_nodes(pools: Plain) -> int:
    """Nodes that all pools together may have."""
    return sum(max(0, pool_size.most_nodes(pool) or 0) for pool in pools.values())


@dataclass(frozen=True)
class Pool:
    """What one pool is to be, with everything derived that its settings leave open.

    Attributes:
        gpus: GPUs of one node, 0 for a CPU type.
        fewest: nodes that it always has.
        most: nodes that it may have.
        min_count: nodes without which `up` fails.
        version: of the nodes' image.
        consent_mode: always given on CMK v2, where an omitted one means `propose`; None on v1, which has none.
        in_partition: its nodes are in the platform's InfiniBand partition.
        protect: a GPU pool of a protected platform that is not being retired.
    """

    settings: NodePoolSettings
    name: PhysicalName
    gpus: int
    fewest: int
    most: int
    min_count: int
    version: str
    consent_mode: str | None
    in_partition: bool
    protect: bool


def plan(
    pools: Mapping[str, NodePoolSettings], *, stack: str, cluster_version: str, protect: bool, paused: bool = False
) -> Mapping[str, Pool]:
    """What each pool is to be, by its key. With `paused` none consents to a repair, whatever its settings say."""
    planned = {key: _pool(key, pool, stack, cluster_version, protect=protect) for key, pool in pools.items()}
    if not paused:
        return planned
    return {key: replace(pool, consent_mode=pool.consent_mode and "off") for key, pool in planned.items()}


def _pool(key: str, pool: NodePoolSettings, stack: str, cluster_version: str, *, protect: bool) -> Pool:
    kind = catalog.vm_type(pool.type)
    gpus, fabric = (kind.gpus, kind.fabric) if kind else (0, None)
    bounds = pool.autoscaling
    fewest, most = (bounds.min, bounds.max) if bounds else (pool.count or 0, pool.count or 0)
    v2 = versions.generation_of(cluster_version) == "v2"
    return Pool(
        settings=pool,
        name=physical_name(stack, key, pool.name),
        gpus=gpus,
        fewest=fewest,
        most=most,
        min_count=fewest - pool.reserve if pool.min_count is None else pool.min_count,
        version=pool.version or cluster_version,
        consent_mode=(pool.consent_mode or "off") if v2 else None,
        in_partition=fabric == "infiniband" and pool.transport_partition_id is None,
        protect=protect and gpus > 0 and not pool.retire,
    )


def gpu_totals(pools: Mapping[str, Pool]) -> dict[str, dict[str, int]]:
    """GPUs by VM type: `{type: {min, max}}`, which differ where pools are autoscaled. Retiring pools don't count."""
    totals: dict[str, dict[str, int]] = {}
    for pool in pools.values():
        if pool.gpus and not pool.settings.retire:
            total = totals.setdefault(pool.settings.type, {"min": 0, "max": 0})
            total["min"] += pool.gpus * pool.fewest
            total["max"] += pool.gpus * pool.most
    return totals


def _given(settings: Settings) -> dict[str, object]:
    return settings.model_dump(by_alias=True, exclude_none=True)


class NodePools(pulumi.ComponentResource):
    """All node pools of the cluster.

    Attributes:
        pools: each pool's resource, by the key that it has in the settings.
    """

    pools: Mapping[str, KubernetesNodePool]

    def __init__(
        self,
        name: str,
        pools: Mapping[str, Pool],
        *,
        cluster: Cluster,
        network: Network,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the pools of `plan` once `after` stands. The crusoe provider comes with `opts`."""
        super().__init__("gpuplatform:node_pools:NodePools", name, None, opts)
        self.pools = {key: self._pool(f"{name}-{key}", pool, cluster, network, after) for key, pool in pools.items()}
        self.register_outputs({"poolIds": {key: pool.id for key, pool in self.pools.items()}})

    def _pool(
        self, name: str, pool: Pool, cluster: Cluster, network: Network, after: Sequence[pulumi.Resource]
    ) -> KubernetesNodePool:
        settings = pool.settings
        partition = network.ib_partition if pool.in_partition else None
        return KubernetesNodePool(
            name,
            name=pool.name.value,
            cluster_id=cluster.cluster.id,
            type=settings.type,
            # Under autoscaling a count would undo the autoscaler's work on each run.
            count=None if settings.autoscaling else settings.count,
            autoscaling=_given(settings.autoscaling) if settings.autoscaling else None,
            min_count=pool.min_count,
            version=pool.version,
            subnet_id=network.subnet.id,
            ib_partition_id=partition.id if partition else None,
            transport_partition_id=settings.transport_partition_id,
            nvlink_domain_id=settings.nvlink_domain_id,
            ssh_public_key=settings.ssh_public_key,
            public_ip_type=settings.public_ip_type,
            node_labels=settings.node_labels,
            node_taints=[_given(taint) for taint in settings.node_taints],
            ephemeral_storage_for_containerd=settings.ephemeral_storage_for_containerd,
            placement_policy=settings.placement_policy,
            reservation=_given(settings.reservation) if settings.reservation else None,
            consent_mode=pool.consent_mode,
            allow_scale_down=settings.allow_scale_down,
            leave_vms_on_scale_down=settings.leave_vms_on_scale_down,
            drained=settings.retire,
            adopt_existing=pool.name.adopt_existing,
            opts=pulumi.ResourceOptions(parent=self, protect=pool.protect, depends_on=after),
        )
