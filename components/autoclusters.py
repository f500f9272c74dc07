"""AutoClusters, Crusoe's automatic repair of failed GPU nodes: what it may do, and that it does nothing else.

Owns the configuration of a CMK v1 cluster's AutoClusters: every issue of the cluster's own catalogue is OFF unless the
settings name it. On CMK v2 the same promise is each pool's consent mode, which `components.node_pools` always gives.
Leaves alone the repairs themselves and everything about a repaired node.

What breaks if violated: left to the service's defaults, a hardware fault (or what looks like one) may replace a node in
the middle of a job. The configuration stands before the first pool does, so no node is ever without it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
from pydantic import Field

from components.cluster import Cluster
from components.node_pools import Pool
from components.settings import Plain, Settings
from crusoe.resources import AutoClustersConfig
from crusoe.rules import autoclusters as rules
from crusoe.rules import versions
from crusoe.rules.finding import Finding


class AutoClustersSettings(Settings):
    """Which faults AutoClusters may answer, on CMK v1. On CMK v2 see `nodePools.<key>.consentMode`."""

    actions: Mapping[str, str] = Field(
        default={},
        description="Action for an issue: `REPLACE_NODE`, or `OFF`, which is also what every issue has that is not "
        "named here. A wrong name is refused with the list of the cluster's issues.",
        examples=[{"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}],
    )
    paused: bool = Field(
        default=False,
        description="Stops all repairs, on CMK v2 too, whatever else the settings say. `make autoclusters ACTION=off` "
        "writes it, so that the next `up` keeps it.",
        examples=[True],
    )
    fallback_to_project_reservations: bool | None = Field(
        default=None,
        description="Repairs may use the project's reserved capacity once Crusoe's own spares are used up. Left out, "
        "it stays as it is.",
        examples=[True],
    )


def findings(
    settings: Plain, path: str, *, cluster_version: object, version_path: str, pools: Plain, pools_path: str
) -> Iterator[Finding]:
    """Check what AutoClusters is to do against the cluster's version and its pools."""
    actions, fallback = settings.get("actions"), settings.get("fallbackToProjectReservations")
    yield from rules.actions(f"{path}.actions", actions)
    yield from rules.generation(path, cluster_version, settings)
    if versions.generation_of(cluster_version) != "v1":
        return
    if rules.repairs_wanted(actions) or fallback is not None:
        yield from rules.version(version_path, cluster_version)
    yield from rules.repairable(f"{path}.actions", actions, pools_path, pools)
    yield from rules.reserve(f"{path}.fallbackToProjectReservations", fallback, actions, pools)


@dataclass(frozen=True)
class Repairs:
    """What is to be set, and where.

    Attributes:
        set_on: "cluster" on CMK v1, "pools" on v2, "nothing" where the version has no AutoClusters.
        remediation_actions: issues that are not OFF, with their action.
        consent_modes: by pool, on v2.
        advice: GPU pools that no repair ever reaches, and issues that a new node does not cure.
    """

    set_on: Literal["cluster", "pools", "nothing"]
    remediation_actions: Mapping[str, str]
    consent_modes: Mapping[str, str]
    advice: tuple[Finding, ...] = ()


def plan(
    settings: AutoClustersSettings, cluster_version: str, pools: Mapping[str, Pool], path: str, pools_path: str
) -> Repairs:
    """What is to be set for a cluster of this version with these pools."""
    if versions.generation_of(cluster_version) == "v2":
        return Repairs("pools", {}, {key: pool.consent_mode for key, pool in pools.items() if pool.consent_mode})
    if not rules.supported(cluster_version):
        return Repairs("nothing", {}, {})
    wanted = {
        issue: action for issue, action in settings.actions.items() if action != rules.OFF and not settings.paused
    }
    types = {key: {"type": pool.settings.type} for key, pool in pools.items()}
    advice = [*rules.unrepaired(pools_path, types), *rules.unwise(f"{path}.actions", wanted)] if wanted else []
    return Repairs("cluster", wanted, {}, tuple(advice))


class AutoClusters(pulumi.ComponentResource):
    """The cluster's AutoClusters configuration.

    Attributes:
        config: the configuration, None on CMK v2 and where the version has no AutoClusters.
        state: `{"setOn", "actions": {issue: action}, "consentModes": {pool: mode}}`, as the stack's output shows it.
    """

    config: AutoClustersConfig | None
    state: pulumi.Output[Mapping[str, object]]

    def __init__(
        self,
        name: str,
        settings: AutoClustersSettings,
        repairs: Repairs,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the configuration. The crusoe provider comes with `opts`."""
        super().__init__("gpuplatform:autoclusters:AutoClusters", name, None, opts)
        self.config = None
        if repairs.set_on == "cluster":
            self.config = AutoClustersConfig(
                f"{name}-config",
                cluster_id=cluster.cluster.id,
                remediation_actions=repairs.remediation_actions,
                fallback_to_project_reservations=settings.fallback_to_project_reservations,
                # It is a part of the cluster and goes with it.
                opts=pulumi.ResourceOptions(parent=self, deleted_with=cluster.cluster),
            )
        for finding in repairs.advice:
            pulumi.log.warn(str(finding), resource=self)
        self.state = pulumi.Output.all(
            setOn=repairs.set_on,
            actions=self.config.actions if self.config else {},
            consentModes=repairs.consent_modes,
        )
        self.register_outputs({"autoClusters": self.state})

    @property
    def before_pools(self) -> Sequence[pulumi.Resource]:
        """What must stand before the first node does."""
        return [self.config] if self.config else []
