"""The platform's CMK cluster, who may use it, and the one way into it for everything else.

Owns the cluster, the explicit Kubernetes provider through which every object in it is managed, and the roles of viewers
and operators. Leaves alone the add-ons that run in the cluster (Crusoe installs them, upgrades are Helm's), support
access, and upgrades of the control plane, which Crusoe does on request.

What breaks if violated: name, location, ranges, OIDC and (on CMK v1) add-ons are fixed at creation, so a change
replaces the cluster with all that is in it; a changed version is refused in the preview. Objects in the cluster whose
options are not `inside` are missing from a replaced cluster, and block the deletion of one whose API server is dead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
from pulumi_kubernetes import Provider as KubernetesProvider
from pydantic import Field

from components.kubernetes import cluster_provider
from components.naming import physical_name
from components.network import Network
from components.settings import Plain, Settings
from crusoe.resources import KubernetesCluster
from crusoe.rules import cluster as rules
from crusoe.rules import names
from crusoe.rules import network as ranges
from crusoe.rules.finding import Finding

RBAC = "rbac.authorization.k8s.io"
VIEWER = "gpuplatform-viewer"
OPERATOR = "gpuplatform-operator"

PRIVATE_NOTE = (
    "The API of this cluster answers inside the VPC only: run Pulumi on a host in {cidr}, or over a VPN into it. "
    "Elsewhere it fails within 15 seconds."
)


class OidcSettings(Settings):
    """The identity provider that vouches for people. A change replaces the cluster."""

    issuer_url: str = Field(description="Issuer, as in its tokens' `iss`.", examples=["https://login.example.com"])
    client_id: str = Field(description="Audience of the tokens, `aud`.", examples=["gpu-platform"])
    username_claim: str = Field(default="sub", description="Claim that names the user.", examples=["email"])
    username_prefix: str | None = Field(
        default=None, description="Put before each user name, to tell it from others.", examples=["oidc:"]
    )
    groups_claim: str = Field(default="groups", description="Claim that lists the user's groups.", examples=["groups"])
    ca_cert: str | None = Field(
        default=None,
        description="PEM certificate of the issuer's own authority.",
        examples=["-----BEGIN CERTIFICATE-----"],
    )


class ClusterSettings(Settings):
    """The control plane, and who may use it."""

    version: str = Field(
        description="CMK version: `1.33.4-cmk.43` is generation v1, a bare `1.35.5` generation v2. It can't be changed "
        "later: Crusoe upgrades on request.",
        examples=["1.33.4-cmk.43"],
    )
    name: str | None = Field(
        default=None, description="Name in Crusoe Cloud, by default `<stack>-cluster`.", examples=["research"]
    )
    private: bool = Field(
        default=False,
        description="The API answers inside the VPC only, so `up` must run there. A change replaces the cluster.",
        examples=[False],
    )
    oidc: OidcSettings | None = Field(
        default=None,
        description="Identity provider for people. Without one only the administrator's certificate gets in.",
        examples=[{"issuerUrl": "https://login.example.com", "clientId": "gpu-platform"}],
    )
    viewers: tuple[str, ...] = Field(
        default=(), description="Groups that may read everything but secrets.", examples=[["ml-engineers"]]
    )
    operators: tuple[str, ...] = Field(
        default=(),
        description="Groups that may also cordon and drain nodes, delete pods and jobs, and scale workloads. They "
        "read no secrets and change no roles.",
        examples=[["platform-team"]],
    )
    add_ons: tuple[str, ...] = Field(
        default=("crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"),
        description="Add-ons that Crusoe installs. On CMK v1 they are fixed at creation: a change replaces the "
        "cluster.",
        examples=[["cluster_autoscaler", "crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"]],
    )
    cluster_cidr: str = Field(
        default="10.232.0.0/14",
        description="Range of the pods, cut into one range for each node. A change replaces the cluster.",
        examples=["10.232.0.0/14"],
    )
    node_cidr_mask_size: int = Field(
        default=24,
        description="Prefix length of one node's range: 24 is 256 addresses. A change replaces the cluster.",
        examples=[24],
    )
    service_cluster_ip_range: str = Field(
        default="10.236.0.0/16",
        description="Range of Services. A change replaces the cluster.",
        examples=["10.236.0.0/16"],
    )
    routing_mode: Literal["overlay", "native"] | None = Field(
        default=None,
        description="How pods reach each other, CMK v2 only; by default the service decides. A change replaces the "
        "cluster.",
        examples=["overlay"],
    )
    apiserver_extra_args: Mapping[str, str] | None = Field(
        default=None,
        description="Arguments of the API server, which take effect after a rotation of the control plane.",
        examples=[{"audit-log-maxage": "30"}],
    )
    scheduler_extra_args: Mapping[str, str] | None = Field(
        default=None, description="Arguments of the scheduler, likewise.", examples=[{"v": "2"}]
    )
    controller_manager_extra_args: Mapping[str, str] | None = Field(
        default=None, description="Arguments of the controller manager, likewise.", examples=[{"v": "2"}]
    )


def findings(cluster: Plain, path: str, stack: str, nodes: int, vm_types: Sequence[object]) -> Iterator[Finding]:
    """Check the cluster with what its pools ask of it: `nodes` at most in all, of these VM types."""
    yield from names.physical(f"{path}.name", stack, "cluster", cluster.get("name"))
    yield from rules.version(f"{path}.version", cluster.get("version"))
    yield from rules.generation_settings(path, cluster.get("version"), cluster)
    yield from rules.add_ons(f"{path}.addOns", cluster.get("addOns"), vm_types)
    for component in ("apiserver", "scheduler", "controllerManager"):
        yield from rules.extra_args(f"{path}.{component}ExtraArgs", cluster.get(f"{component}ExtraArgs"))
    yield from rules.oidc(f"{path}.oidc", cluster.get("oidc"))
    for role in ("viewers", "operators"):
        yield from rules.groups(f"{path}.{role}", cluster.get(role), f"{path}.oidc", cluster.get("oidc"))
    yield from ranges.cidr(f"{path}.clusterCidr", cluster.get("clusterCidr"))
    yield from ranges.cidr(f"{path}.serviceClusterIpRange", cluster.get("serviceClusterIpRange"))
    yield from ranges.pod_ranges(
        f"{path}.nodeCidrMaskSize", cluster.get("clusterCidr"), cluster.get("nodeCidrMaskSize"), nodes
    )


def oidc_inputs(oidc: OidcSettings | None) -> dict[str, str] | None:
    """The identity provider as the cluster takes it."""
    return oidc.model_dump(by_alias=True, exclude_none=True) if oidc else None


@dataclass(frozen=True)
class Permission:
    """What may be done with some kinds of one API group."""

    api_group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Grant:
    """A cluster-wide role, and the groups that have it. A role that Kubernetes brings along has no `permissions`."""

    thing: str
    role: str
    permissions: tuple[Permission, ...]
    groups: tuple[str, ...]


_READ = ("get", "list", "watch")
# What the built-in role `view` does not cover, since it knows namespaced objects only.
VIEWER_PERMISSIONS = (
    Permission("", ("nodes", "persistentvolumes"), _READ),
    Permission("apiextensions.k8s.io", ("customresourcedefinitions",), _READ),
    Permission("metrics.k8s.io", ("nodes", "pods"), _READ),
    Permission("scheduling.k8s.io", ("priorityclasses",), _READ),
    Permission("storage.k8s.io", ("storageclasses", "volumeattachments"), _READ),
)
# No exec, secrets, impersonation, or say over what pods run: through each of them an operator would hold every key.
OPERATOR_PERMISSIONS = (
    Permission("", ("nodes",), ("patch",)),
    Permission("", ("pods",), ("delete",)),
    Permission("", ("pods/eviction",), ("create",)),
    Permission("apps", ("deployments/scale", "statefulsets/scale"), ("get", "patch", "update")),
    Permission("batch", ("jobs",), ("delete",)),
)


def grants(settings: ClusterSettings) -> list[Grant]:
    """Roles that somebody has; an operator is a viewer too."""
    everyone = tuple(dict.fromkeys((*settings.viewers, *settings.operators)))
    planned = (
        Grant("view", "view", (), everyone),
        Grant("viewer", VIEWER, VIEWER_PERMISSIONS, everyone),
        Grant("operator", OPERATOR, OPERATOR_PERMISSIONS, settings.operators),
    )
    return [grant for grant in planned if grant.groups]


class Cluster(pulumi.ComponentResource):
    """The CMK cluster with its people.

    Attributes:
        cluster: the cluster itself.
        kubeconfig: the administrator's way in, a secret.
        kubernetes: the only Kubernetes provider of the program.
    """

    cluster: KubernetesCluster
    kubeconfig: pulumi.Output[str]
    kubernetes: KubernetesProvider

    def __init__(
        self,
        name: str,
        settings: ClusterSettings,
        *,
        stack: str,
        network: Network,
        location: str,
        protect: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the cluster in `network`. The crusoe provider comes with `opts`."""
        super().__init__("gpuplatform:cluster:Cluster", name, None, opts)
        physical = physical_name(stack, "cluster", settings.name)
        self.cluster = KubernetesCluster(
            f"{name}-cmk",
            name=physical.value,
            location=location,
            version=settings.version,
            subnet_id=network.subnet.id,
            cluster_cidr=settings.cluster_cidr,
            service_cluster_ip_range=settings.service_cluster_ip_range,
            node_cidr_mask_size=settings.node_cidr_mask_size,
            # The service takes another order for another list, so the settings' order must not reach it.
            add_ons=sorted(settings.add_ons),
            private=settings.private,
            routing_mode=settings.routing_mode,
            oidc=oidc_inputs(settings.oidc),
            apiserver_extra_args=settings.apiserver_extra_args,
            scheduler_extra_args=settings.scheduler_extra_args,
            controller_manager_extra_args=settings.controller_manager_extra_args,
            adopt_existing=physical.adopt_existing,
            opts=pulumi.ResourceOptions(parent=self, protect=protect, depends_on=network.foundation),
        )
        if settings.private:
            pulumi.log.info(PRIVATE_NOTE.format(cidr=network.cidr), resource=self.cluster)
        self.kubeconfig = pulumi.Output.secret(self.cluster.kubeconfig)
        self.kubernetes = cluster_provider(name, self.kubeconfig, self)
        for grant in grants(settings):
            self._grant(name, grant)
        self.register_outputs({"clusterId": self.cluster.id, "kubeconfig": self.kubeconfig})

    def inside(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] | None = None
    ) -> pulumi.ResourceOptions:
        """Options of an object in the cluster that owns no cloud resource: it goes when the cluster goes.

        With `deleted_with`, a dead API server never stands in the way of deleting a paid cluster. Not for load
        balancers and volume claims, whose cloud resources must go first. A replaced cluster replaces the object.
        """
        return pulumi.ResourceOptions(
            parent=parent,
            provider=self.kubernetes,
            deleted_with=self.cluster,
            replacement_trigger=self.cluster.id,
            delete_before_replace=True,
            depends_on=depends_on,
        )

    def _grant(self, name: str, grant: Grant) -> None:
        # Loaded by those who have groups; it costs every preview as much as pydantic.
        from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRuleArgs, RoleRefArgs, SubjectArgs

        if grant.permissions:
            ClusterRole(
                f"{name}-role-{grant.thing}",
                metadata={"name": grant.role},
                rules=[
                    PolicyRuleArgs(api_groups=[each.api_group], resources=[*each.resources], verbs=[*each.verbs])
                    for each in grant.permissions
                ],
                opts=self.inside(self),
            )
        ClusterRoleBinding(
            f"{name}-grant-{grant.thing}",
            metadata={"name": f"gpuplatform-grant-{grant.thing}"},
            role_ref=RoleRefArgs(api_group=RBAC, kind="ClusterRole", name=grant.role),
            subjects=[SubjectArgs(api_group=RBAC, kind="Group", name=group) for group in grant.groups],
            opts=self.inside(self),
        )
