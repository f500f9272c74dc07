"""Node pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource, output_type


class KubernetesNodePoolInputs(TypedDict):
    """Inputs of a node pool; a change replaces unless it says otherwise.

    Attributes:
        name: name of the pool.
        cluster_id: id of the cluster.
        type: VM type, such as h100-80gb-sxm-ib.8x.
        count: number of nodes, changed in place; left out with autoscaling.
        version: of new nodes, changed in place; the newest that fits the cluster when left out.
        subnet_id: id of the subnet; the cluster's when left out.
        ib_partition_id: id of the InfiniBand partition.
        transport_partition_id: the same under the API's newer name.
        nvlink_domain_id: id of the NVLink domain (GB200).
        ssh_public_key: SSH public key on the nodes.
        public_ip_type: `dynamic` (the default), `static` or `none`.
        node_labels: labels of new nodes, changed in place.
        node_taints: `{key, value?, effect}` each, of new nodes, changed in place.
        ephemeral_storage_for_containerd: containerd on the first local NVMe disk of new nodes, changed in place.
        placement_policy: `spread` or `unspecified`; without effect on GPU types.
        reservation: `{id}`, changed in place, or `{selectionStrategy}` at creation.
        autoscaling: `{min, max}`, changed in place.
        consent_mode: `auto`, `propose` or `off` (CMK v2), changed in place; off when left out.
        allow_scale_down: a lower count drains and deletes nodes (CMK v2), changed in place.
        min_count: with fewer running nodes the pool is an error; all that are asked for when left out.
        leave_vms_on_scale_down: consent to a lower count on CMK v1, which leaves VMs running and billed.
        drained: nodes cordoned and their pods evicted, changed in place; false lets them take pods again.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    cluster_id: pulumi.Input[str]
    type: pulumi.Input[str]
    count: NotRequired[pulumi.Input[int] | None]
    version: NotRequired[pulumi.Input[str] | None]
    subnet_id: NotRequired[pulumi.Input[str] | None]
    ib_partition_id: NotRequired[pulumi.Input[str] | None]
    transport_partition_id: NotRequired[pulumi.Input[str] | None]
    nvlink_domain_id: NotRequired[pulumi.Input[str] | None]
    ssh_public_key: NotRequired[pulumi.Input[str] | None]
    public_ip_type: NotRequired[pulumi.Input[str] | None]
    node_labels: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    node_taints: NotRequired[pulumi.Input[Sequence[pulumi.Input[Mapping[str, Any]]]] | None]
    ephemeral_storage_for_containerd: NotRequired[pulumi.Input[bool] | None]
    placement_policy: NotRequired[pulumi.Input[str] | None]
    reservation: NotRequired[pulumi.Input[Mapping[str, Any]] | None]
    autoscaling: NotRequired[pulumi.Input[Mapping[str, Any]] | None]
    consent_mode: NotRequired[pulumi.Input[str] | None]
    allow_scale_down: NotRequired[pulumi.Input[bool] | None]
    min_count: NotRequired[pulumi.Input[int] | None]
    leave_vms_on_scale_down: NotRequired[pulumi.Input[bool] | None]
    drained: NotRequired[pulumi.Input[bool] | None]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


@output_type
class NodeTaint:
    """A taint of a pool's nodes."""

    key: str
    value: str | None
    effect: str


@output_type
class Reservation:
    """The reservation that a pool's VMs go into."""

    id: str | None
    selection_strategy: str | None


@output_type
class Autoscaling:
    """Bounds of the autoscaler."""

    min: int
    max: int


class KubernetesNodePool(CrusoeResource, inputs=KubernetesNodePoolInputs):
    """A node pool; done when the asked-for nodes run."""

    name: pulumi.Output[str]
    cluster_id: pulumi.Output[str]
    type: pulumi.Output[str]
    count: pulumi.Output[int | None]
    version: pulumi.Output[str | None]
    subnet_id: pulumi.Output[str]
    ib_partition_id: pulumi.Output[str | None]
    transport_partition_id: pulumi.Output[str | None]
    nvlink_domain_id: pulumi.Output[str | None]
    ssh_public_key: pulumi.Output[str | None]
    public_ip_type: pulumi.Output[str | None]
    node_labels: pulumi.Output[Mapping[str, str] | None]
    node_taints: pulumi.Output[Sequence[NodeTaint] | None]
    ephemeral_storage_for_containerd: pulumi.Output[bool | None]
    placement_policy: pulumi.Output[str | None]
    reservation: pulumi.Output[Reservation | None]
    autoscaling: pulumi.Output[Autoscaling | None]
    consent_mode: pulumi.Output[str | None]
    allow_scale_down: pulumi.Output[bool | None]
    min_count: pulumi.Output[int | None]
    leave_vms_on_scale_down: pulumi.Output[bool | None]
    drained: pulumi.Output[bool | None]
    adopt_existing: pulumi.Output[bool | None]
    missing_nodes: pulumi.Output[int]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[KubernetesNodePoolInputs],
    ) -> None:
        """Declare the pool."""
        super().__init__(resource_name, inputs, opts)
