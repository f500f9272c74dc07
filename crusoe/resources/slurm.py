"""Slurm: clusters and node sets of Crusoe Managed Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource


class SlurmClusterInputs(TypedDict):
    """Inputs of a Slurm cluster. Crusoe can change none of them: a change is refused unless `replace_on_change`.

    Attributes:
        name: name of the Slurm cluster, and of its CMK cluster; at most 35 characters.
        location: location, such as us-east1-a.
        root_ssh_public_keys: SSH public keys of root, at least one.
        subnet_id: id of the subnet; a default one when left out.
        login_node_type: VM type for controller and login; c1a.8x when left out.
        login_replicas: login pods; 1 when left out.
        home_volume_size: of the shared /home in whole Ti, such as 10Ti (when left out); the empty text for none.
        replace_on_change: consent that a changed input replaces the cluster, with /home, queue and running jobs.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    name: pulumi.Input[str]
    location: pulumi.Input[str]
    root_ssh_public_keys: pulumi.Input[Sequence[pulumi.Input[str]]]
    subnet_id: NotRequired[pulumi.Input[str] | None]
    login_node_type: NotRequired[pulumi.Input[str] | None]
    login_replicas: NotRequired[pulumi.Input[int] | None]
    home_volume_size: NotRequired[pulumi.Input[str] | None]
    replace_on_change: NotRequired[pulumi.Input[bool] | None]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


class SlurmCluster(CrusoeResource, inputs=SlurmClusterInputs):
    """A cluster of Crusoe Managed Slurm; done when it runs and the API of its CMK cluster answers.

    `kubernetes_cluster_id` is that of the CMK cluster on which it runs, found by its name; `kubeconfig` is that
    cluster's, an administrator's, and a secret. `login_host` is the address of the login nodes, open to the world until
    ranges are set on the SlurmCluster object inside.
    """

    name: pulumi.Output[str]
    location: pulumi.Output[str]
    root_ssh_public_keys: pulumi.Output[Sequence[str]]
    subnet_id: pulumi.Output[str | None]
    login_node_type: pulumi.Output[str | None]
    login_replicas: pulumi.Output[int | None]
    home_volume_size: pulumi.Output[str | None]
    replace_on_change: pulumi.Output[bool | None]
    adopt_existing: pulumi.Output[bool | None]
    login_host: pulumi.Output[str]
    slurm_version: pulumi.Output[str]
    kubernetes_cluster_id: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[SlurmClusterInputs],
    ) -> None:
        """Declare the cluster."""
        super().__init__(resource_name, inputs, opts)


class SlurmNodeSetInputs(TypedDict):
    """Inputs of a node set; a change replaces unless it says otherwise.

    Attributes:
        slurm_cluster_id: id of the Slurm cluster.
        name: name of the node set.
        type: VM type, such as h100-80gb-sxm-ib.8x.
        count: number of nodes, changed in place; a lower one needs `allow_scale_down`.
        subnet_id: id of the subnet.
        transport_partition_id: id of the InfiniBand or RoCE partition; types with a fabric need one.
        vm_ssh_public_key: SSH public key on the nodes.
        min_count: with fewer ready nodes it is an error; all that are asked for when left out.
        allow_scale_down: consent to a lower count, which takes nodes away whose jobs may not have ended.
        adopt_existing: whether an object of this name that agrees may be adopted.
    """

    slurm_cluster_id: pulumi.Input[str]
    name: pulumi.Input[str]
    type: pulumi.Input[str]
    count: pulumi.Input[int]
    subnet_id: NotRequired[pulumi.Input[str] | None]
    transport_partition_id: NotRequired[pulumi.Input[str] | None]
    vm_ssh_public_key: NotRequired[pulumi.Input[str] | None]
    min_count: NotRequired[pulumi.Input[int] | None]
    allow_scale_down: NotRequired[pulumi.Input[bool] | None]
    adopt_existing: NotRequired[pulumi.Input[bool] | None]


class SlurmNodeSet(CrusoeResource, inputs=SlurmNodeSetInputs):
    """A node set of Crusoe Managed Slurm; done when the asked-for nodes are ready. Its id is `<cluster>/<nodeset>`.

    `ready_count` is the number of nodes whose Slurm pods all run, never the one asked for.
    """

    slurm_cluster_id: pulumi.Output[str]
    name: pulumi.Output[str]
    type: pulumi.Output[str]
    count: pulumi.Output[int]
    subnet_id: pulumi.Output[str | None]
    transport_partition_id: pulumi.Output[str | None]
    vm_ssh_public_key: pulumi.Output[str | None]
    min_count: pulumi.Output[int | None]
    allow_scale_down: pulumi.Output[bool | None]
    adopt_existing: pulumi.Output[bool | None]
    ready_count: pulumi.Output[int]
    missing_nodes: pulumi.Output[int]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[SlurmNodeSetInputs],
    ) -> None:
        """Declare the node set."""
        super().__init__(resource_name, inputs, opts)
