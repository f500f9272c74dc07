"""The whole platform: its settings, and its parts in dependency order.

Owns the explicit crusoe provider (endpoint and project of the settings, keys of the environment) and the order: disks
and network, then the cluster, then AutoClusters, then the node pools, then Slurm with what shares GPUs beside it.
Leaves everything else to the rooms.

What breaks if violated: tokens, names and parents of resources are frozen once released. Changing one makes Pulumi
replace what is behind it, unless the change carries an alias.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated

import pulumi
from pydantic import Field

from components import autoclusters, cluster, exporter, network, node_pools, storage
from components.autoclusters import AutoClusters, AutoClustersSettings
from components.cluster import Cluster, ClusterSettings
from components.exporter import ExporterSettings
from components.gpu_sharing import settings as gpu_sharing_settings
from components.gpu_sharing.settings import GpuSharingSettings
from components.network import Network, NetworkSettings
from components.node_pools import NodePools, NodePoolSettings
from components.observability import settings as observability_settings
from components.observability.settings import ObservabilitySettings
from components.settings import Form, Plain, Settings
from components.slurm import settings as slurm_settings
from components.slurm.settings import SlurmSettings
from components.storage import Storage, StorageSettings
from crusoe.resources import Provider
from crusoe.rules import network as ranges
from crusoe.rules import places, reach
from crusoe.rules.finding import Finding
from crusoe.rules.values import table

KEY = "platform"
"""The one configuration key."""

NO_SLURM: Mapping[str, object] = {"mode": "none", "clusterName": "", "nodeSets": {}, "partitions": []}
"""The output `slurm` of a stack without it."""

NO_OBSERVABILITY: Mapping[str, object] = {"stack": "none", "routes": {}}
"""The output `observability` of a stack without it."""

Endpoint = Annotated[
    str,
    Form(
        r"https://[^\s/?#@]+(/[^\s?#]*)?|http://(localhost|127(\.\d{1,3}){3})(:\d{1,5})?(/[^\s?#]*)?",
        "not an https address, nor an http one on this machine",
    ),
]


class CloudSettings(Settings):
    """Which Crusoe Cloud, and which project in it. Keys come from the environment or `~/.crusoe/config` only."""

    endpoint: Endpoint = Field(
        default="https://api.cloud.crusoe.ai/v1",
        description="Address of the API. It is kept in state: another one in the environment stops every command.",
        examples=["https://api.cloud.crusoe.ai/v1"],
    )
    project: str = Field(
        description="Name or id of the Crusoe project that holds all resources.", examples=["research"], min_length=1
    )


class PlatformSettings(Settings):
    """A whole environment."""

    cloud: CloudSettings = Field(description="Where the platform lives.", examples=[{"project": "research"}])
    location: str = Field(
        description="Location of all resources. A change replaces the platform.", examples=["us-east1-a"]
    )
    protect: bool = Field(
        default=True,
        description="Guards network, cluster, GPU pools, disks and namespaces of shares against deletion. Off for "
        "throw-away environments.",
        examples=[True],
    )
    network: NetworkSettings = Field(
        default=NetworkSettings(),
        description="The network that everything is in.",
        examples=[{"cidr": "10.0.0.0/16", "subnetCidr": "10.0.0.0/20"}],
    )
    cluster: ClusterSettings = Field(description="The Kubernetes cluster.", examples=[{"version": "1.33.4-cmk.43"}])
    node_pools: Mapping[str, NodePoolSettings] = Field(
        description="Node pools by a key of your own; at least one CPU pool, for the cluster's own pods.",
        examples=[{"system": {"type": "c1a.8x", "count": 2}}],
    )
    auto_clusters: AutoClustersSettings = Field(
        default=AutoClustersSettings(),
        description="Automatic repairs, all off by default.",
        examples=[{"actions": {"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}}],
    )
    storage: StorageSettings = Field(
        default=StorageSettings(),
        description="Disks that stay when nodes and clusters go.",
        examples=[{"disks": {"home": {"size": "10TiB"}}}],
    )
    slurm: SlurmSettings | None = Field(
        default=None,
        description="Slurm, which machine-learning engineers submit their jobs to; none unless it is here.",
        examples=[{"login": {"cidrs": ["203.0.113.0/24"]}, "home": {"disk": "home"}}],
    )
    gpu_sharing: GpuSharingSettings | None = Field(
        default=None,
        description="GPU sharing between training and inference; none unless it is here.",
        examples=[
            {"pools": {"train": {"training": {"floor": 8}, "inference": {"chat": {"gpusPerReplica": 4, "floor": 5}}}}}
        ],
    )
    exporter: ExporterSettings | None = Field(
        default=None,
        description="The exporter of the platform's own metrics; none unless it is here.",
        examples=[{"apiKey": {"id": "AbCdEf0123456789", "secret": "exporterSecretKey"}}],
    )
    observability: ObservabilitySettings | None = Field(
        default=None,
        description="Monitoring, alerts and dashboards; none unless it is here.",
        examples=[{"routes": {"oncall": {"kind": "pagerduty", "secret": "pagerdutyKey", "severities": ["page"]}}}],
    )


def findings(platform: Plain, stack: str) -> Iterator[Finding]:
    """Check every part, and the parts against each other."""
    pools = table(platform.get("nodePools"))
    net, control_plane = table(platform.get("network")), table(platform.get("cluster"))
    version, nodes = control_plane.get("version"), node_pools.most_nodes(pools)
    yield from places.location(f"{KEY}.location", platform.get("location"))
    yield from network.findings(net, f"{KEY}.network", stack, nodes)
    yield from cluster.findings(
        control_plane, f"{KEY}.cluster", stack, nodes, [table(pool).get("type") for pool in pools.values()]
    )
    yield from ranges.disjoint(
        {
            f"{KEY}.network.cidr": net.get("cidr"),
            f"{KEY}.cluster.clusterCidr": control_plane.get("clusterCidr"),
            f"{KEY}.cluster.serviceClusterIpRange": control_plane.get("serviceClusterIpRange"),
        }
    )
    yield from reach.way_out(f"{KEY}.network.natGateway", net.get("natGateway"), f"{KEY}.nodePools", pools)
    yield from node_pools.findings(
        pools,
        f"{KEY}.nodePools",
        stack,
        cluster_version=version,
        infiniband=net.get("infiniband") is not None,
        infiniband_path=f"{KEY}.network.infiniband",
    )
    yield from autoclusters.findings(
        table(platform.get("autoClusters")),
        f"{KEY}.autoClusters",
        cluster_version=version,
        version_path=f"{KEY}.cluster.version",
        pools=pools,
        pools_path=f"{KEY}.nodePools",
    )
    disks = table(platform.get("storage"))
    yield from storage.findings(disks, f"{KEY}.storage", stack)
    yield from exporter.findings(table(platform.get("exporter")), f"{KEY}.exporter")
    if platform.get("slurm") is not None:
        yield from slurm_settings.findings(
            table(platform.get("slurm")),
            f"{KEY}.slurm",
            pools=pools,
            pools_path=f"{KEY}.nodePools",
            disks=table(disks.get("disks")),
            disks_path=f"{KEY}.storage.disks",
            stack=stack,
            infiniband=net.get("infiniband") is not None,
        )
    if platform.get("gpuSharing") is not None:
        yield from gpu_sharing_settings.findings(
            table(platform.get("gpuSharing")),
            f"{KEY}.gpuSharing",
            pools=pools,
            pools_path=f"{KEY}.nodePools",
            slurm=platform.get("slurm"),
            slurm_path=f"{KEY}.slurm",
        )
        yield from gpu_sharing_settings.not_yet(table(platform.get("gpuSharing")), f"{KEY}.gpuSharing")
    if platform.get("observability") is not None:
        yield from observability_settings.findings(table(platform.get("observability")), f"{KEY}.observability")


def findings_of_the_whole(settings: PlatformSettings, stack: str) -> Iterator[Finding]:
    """Check what only shows in what is made from settings that are right by themselves."""
    if settings.slurm and settings.slurm.mode == "slinky":
        from components.slurm import plan  # with the room itself, see below

        pools = node_pools.plan(
            settings.node_pools, stack=stack, cluster_version=settings.cluster.version, protect=settings.protect
        )
        split = plan.undivided
        if settings.gpu_sharing:
            from components.gpu_sharing import plan as sharing_plan
            from components.gpu_sharing import workers

            split = partial(workers.split, sharing_plan.plan(settings.gpu_sharing, pools, settings.slurm))
        yield from plan.findings(
            settings.slurm, pools, settings.storage.disks, f"{KEY}.slurm", stack=stack, split=split
        )


def findings_of_secrets(settings: PlatformSettings, look: Callable[[str], str | None]) -> Iterator[Finding]:
    """Check the stack's secrets where what they are for would only tell when it is too late."""
    if settings.observability:
        yield from observability_settings.secret_findings(settings.observability, f"{KEY}.observability", look)


class Platform(pulumi.ComponentResource):
    """Everything that one stack has.

    Attributes:
        network, storage, cluster, auto_clusters, node_pools: the parts.
        login_host: address of Slurm's login nodes; empty without any.
        outputs: what the stack tells others; a contract, see docs/outputs.md.
    """

    network: Network
    storage: Storage
    cluster: Cluster
    auto_clusters: AutoClusters
    node_pools: NodePools
    login_host: pulumi.Input[str]
    outputs: Mapping[str, pulumi.Input[object]]

    def __init__(
        self, name: str, settings: PlatformSettings, *, stack: str, secrets: Callable[[str], pulumi.Output[str]]
    ) -> None:
        """Declare the platform of `settings` for `stack`, whose name is part of every physical name.

        `secrets` reads a secret of the stack by the name that the settings give.
        """
        super().__init__("gpuplatform:platform:Platform", name)
        provider = Provider(
            f"{name}-crusoe",
            endpoint=settings.cloud.endpoint,
            project=settings.cloud.project,
            opts=pulumi.ResourceOptions(parent=self),
        )
        part = pulumi.ResourceOptions(parent=self, providers={"crusoe": provider})
        location, protect = settings.location, settings.protect
        version = settings.cluster.version
        pools = node_pools.plan(
            settings.node_pools,
            stack=stack,
            cluster_version=version,
            protect=protect,
            paused=settings.auto_clusters.paused,
        )

        self.storage = Storage(
            f"{name}-storage", settings.storage, stack=stack, location=location, protect=protect, opts=part
        )
        self.network = Network(
            f"{name}-network", settings.network, stack=stack, location=location, protect=protect, opts=part
        )
        self.cluster = Cluster(
            f"{name}-cluster",
            settings.cluster,
            stack=stack,
            network=self.network,
            location=location,
            protect=protect,
            opts=part,
        )
        self.auto_clusters = AutoClusters(
            f"{name}-autoclusters",
            settings.auto_clusters,
            autoclusters.plan(settings.auto_clusters, version, pools, f"{KEY}.autoClusters", f"{KEY}.nodePools"),
            cluster=self.cluster,
            opts=part,
        )
        self.node_pools = NodePools(
            f"{name}-pools",
            pools,
            cluster=self.cluster,
            network=self.network,
            after=self.auto_clusters.before_pools,
            opts=part,
        )
        self.login_host = ""
        ready: list[pulumi.Resource] = [*self.node_pools.pools.values()]
        slurm: Mapping[str, object] = NO_SLURM
        slurm_kubeconfig: pulumi.Input[str] = ""
        sharing, promises = None, dict[str, object]()
        if settings.slurm and settings.gpu_sharing:
            from components.gpu_sharing import check
            from components.gpu_sharing import plan as sharing_plan
            from components.gpu_sharing.sharing import Sharing

            sharing = Sharing(
                f"{name}-sharing",
                sharing_plan.plan(settings.gpu_sharing, pools, settings.slurm),
                path=f"{KEY}.gpuSharing",
                pools=pools,
                cluster=self.cluster,
                protect=protect,
                opts=part,
            )
            promises = check.expected(sharing.plan)
        if settings.slurm:
            # Loaded by those who have it, since it is the largest room.
            from components.slurm.slurm import Slurm

            declared = Slurm(
                f"{name}-slurm",
                settings.slurm,
                stack=stack,
                cluster=self.cluster,
                network=self.network,
                provider=provider,
                pools=pools,
                disks=self.storage.disks,
                disk_settings=settings.storage.disks,
                after=[*self.node_pools.pools.values()],
                location=location,
                protect=protect,
                secrets=secrets,
                sharing=sharing,
                opts=part,
            )
            self.login_host = declared.login_host
            slurm, slurm_kubeconfig = declared.expected, declared.kubeconfig
            ready.append(declared)
        if settings.exporter:
            exporter.Exporter(
                f"{name}-exporter",
                settings.exporter,
                place=exporter.Place(settings.cloud.endpoint, settings.cloud.project, location),
                pools=pools,
                slurm=settings.slurm,
                sharing=sharing.plan if sharing else None,
                cluster=self.cluster,
                after=ready,
                secrets=secrets,
                opts=part,
            )
        observability: Mapping[str, object] = NO_OBSERVABILITY
        if settings.observability:
            from components.observability.observability import Observability, has

            watched = Observability(
                f"{name}-observability",
                settings.observability,
                has(
                    settings.observability,
                    pools,
                    settings.auto_clusters.actions,
                    settings.slurm,
                    sharing.plan if sharing else None,
                    exporter=settings.exporter is not None,
                ),
                cluster=self.cluster,
                after=ready,
                protect=protect,
                secrets=secrets,
                opts=part,
            )
            observability = watched.expected
        self.outputs = {
            "clusterId": self.cluster.cluster.id,
            "kubeconfig": self.cluster.kubeconfig,
            "networkId": self.network.vpc.id,
            "subnetId": self.network.subnet.id,
            "poolIds": {key: pool.id for key, pool in self.node_pools.pools.items()},
            "gpuTotals": node_pools.gpu_totals(pools),
            "autoClusters": self.auto_clusters.state,
            "diskIds": {key: disk.id for key, disk in self.storage.disks.items()},
            "loginHost": self.login_host,
            "slurm": slurm,
            "slurmKubeconfig": slurm_kubeconfig,
            "gpuSharing": promises,
            "observability": observability,
        }
        self.register_outputs(dict(self.outputs))
