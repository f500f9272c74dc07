"""CMK clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource, output_type


class KubernetesClusterInputs(TypedDict):
    """Inputs of a cluster; a change replaces unless it says otherwise.

    Attributes:
        name: name of the cluster.
        location: location, such as us-east1-a.
        version: `1.33.4-cmk.43` is CMK v1, a bare `1.35.5` CMK v2; a change is refused, Crusoe upgrades on request.
        subnet_id: id of the subnet; the location's default one when left out.
        cluster_cidr: range of the pods' addresses.
        service_cluster_ip_range: range of the Services' addresses.
        node_cidr_mask_size: prefix length of one node's range of pod addresses.
        add_ons: such as nvidia_gpu_operator; changed in place on CMK v2.
        private: whether the API is reachable from inside the network only.
        routing_mode: `overlay` or `native` (CMK v2).
        oidc: `{issuerUrl, clientId, usernameClaim?, usernamePrefix?, groupsClaim?, caCert?}`.
        apiserver_extra_args: changed in place, in effect from the control plane's next rotation on.
        scheduler_extra_args: as `apiserver_extra_args`.
        controller_manager_extra_args: as `apiserver_extra_args`.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    location: pulumi.Input[str]
    version: pulumi.Input[str]
    subnet_id: NotRequired[pulumi.Input[str] | None]
    cluster_cidr: NotRequired[pulumi.Input[str] | None]
    service_cluster_ip_range: NotRequired[pulumi.Input[str] | None]
    node_cidr_mask_size: NotRequired[pulumi.Input[int] | None]
    add_ons: NotRequired[pulumi.Input[Sequence[pulumi.Input[str]]] | None]
    private: NotRequired[pulumi.Input[bool] | None]
    routing_mode: NotRequired[pulumi.Input[str] | None]
    oidc: NotRequired[pulumi.Input[Mapping[str, Any]] | None]
    apiserver_extra_args: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    scheduler_extra_args: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    controller_manager_extra_args: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


@output_type
class Oidc:
    """Sign-in through an OIDC provider."""

    issuer_url: str
    client_id: str
    username_claim: str | None
    username_prefix: str | None
    groups_claim: str | None
    ca_cert: str | None


class KubernetesCluster(CrusoeResource, inputs=KubernetesClusterInputs):
    """A CMK cluster; done when its API answers. `kubeconfig` is an administrator's, and a secret."""

    name: pulumi.Output[str]
    location: pulumi.Output[str]
    version: pulumi.Output[str]
    subnet_id: pulumi.Output[str]
    cluster_cidr: pulumi.Output[str | None]
    service_cluster_ip_range: pulumi.Output[str | None]
    node_cidr_mask_size: pulumi.Output[int | None]
    add_ons: pulumi.Output[Sequence[str] | None]
    private: pulumi.Output[bool | None]
    routing_mode: pulumi.Output[str | None]
    oidc: pulumi.Output[Oidc | None]
    apiserver_extra_args: pulumi.Output[Mapping[str, str] | None]
    scheduler_extra_args: pulumi.Output[Mapping[str, str] | None]
    controller_manager_extra_args: pulumi.Output[Mapping[str, str] | None]
    adopt_existing: pulumi.Output[bool | None]
    project_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    generation: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[KubernetesClusterInputs],
    ) -> None:
        """Declare the cluster."""
        super().__init__(resource_name, inputs, opts)
