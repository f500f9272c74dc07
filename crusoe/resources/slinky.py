"""Slinky in a CMK cluster: waiting for its parts and for the workers of its NodeSets. Neither makes an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource, output_type


class SlurmReadyInputs(TypedDict):
    """Inputs of a wait for Slinky's parts; a change of any but `wait_seconds` waits again.

    Attributes:
        cluster_id: id of the CMK cluster; a change replaces.
        wait_for: `{kind, namespace, name}` each; kind is `Controller`, `RestApi`, `Accounting` or `LoginSet`, for what
            the operator makes of it, `Webhook` by the name of its Deployment, `Deployment` or `StatefulSet`.
        probe_namespace: where the webhook has to refuse a wrong NodeSet, sent as a dry run; slurm when left out.
        triggers: any values whose change has it wait again.
        wait_seconds: for how long to wait, for all together; 600 when left out.
    """

    cluster_id: pulumi.Input[str]
    wait_for: NotRequired[pulumi.Input[Sequence[pulumi.Input[Mapping[str, Any]]]] | None]
    probe_namespace: NotRequired[pulumi.Input[str] | None]
    triggers: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    wait_seconds: NotRequired[pulumi.Input[int] | None]


@output_type
class SlurmReadyObject:
    """One thing that is waited for."""

    kind: str
    namespace: str
    name: str


class SlurmReady(CrusoeResource, inputs=SlurmReadyInputs):
    """Stands for Slinky's webhook and control part being ready: creating or updating it waits for them."""

    _delete_before_replace: ClassVar[bool] = False

    cluster_id: pulumi.Output[str]
    wait_for: pulumi.Output[Sequence[SlurmReadyObject] | None]
    probe_namespace: pulumi.Output[str | None]
    triggers: pulumi.Output[Mapping[str, str] | None]
    wait_seconds: pulumi.Output[int | None]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[SlurmReadyInputs],
    ) -> None:
        """Declare the wait."""
        super().__init__(resource_name, inputs, opts)


class SlurmWorkersInputs(TypedDict):
    """Inputs of the workers of a NodeSet.

    Attributes:
        cluster_id: id of the CMK cluster; a change replaces.
        node_set: name of the NodeSet; a change replaces.
        namespace: of NodeSet and Controller, slurm when left out; a change replaces.
        controller: name of the Controller; slurm when left out.
        replicas: workers to wait for; as many as the NodeSet wants when left out, as with autoscaling.
        min_ready: with at least so many, workers that find no node are a warning; all are needed when left out.
        enough: with so many ready they are waited for no longer, the others may wait for nodes; all when left out.
        triggers: any values whose change has the workers waited for.
        wait_seconds: for how long they are waited for, 0 for not at all; 900 when left out.
        drain_seconds: for how long jobs may run on when the workers are to go; 1800 when left out.
    """

    cluster_id: pulumi.Input[str]
    node_set: pulumi.Input[str]
    namespace: NotRequired[pulumi.Input[str] | None]
    controller: NotRequired[pulumi.Input[str] | None]
    replicas: NotRequired[pulumi.Input[int] | None]
    min_ready: NotRequired[pulumi.Input[int] | None]
    enough: NotRequired[pulumi.Input[int] | None]
    triggers: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    wait_seconds: NotRequired[pulumi.Input[int] | None]
    drain_seconds: NotRequired[pulumi.Input[int] | None]


class SlurmWorkers(CrusoeResource, inputs=SlurmWorkersInputs):
    """Stands for the workers of a Slinky NodeSet: up after it is made or changed, drained before it is deleted.

    Declare it with the NodeSet among its dependencies, so that it is deleted first.
    """

    cluster_id: pulumi.Output[str]
    node_set: pulumi.Output[str]
    namespace: pulumi.Output[str | None]
    controller: pulumi.Output[str | None]
    replicas: pulumi.Output[int | None]
    min_ready: pulumi.Output[int | None]
    enough: pulumi.Output[int | None]
    triggers: pulumi.Output[Mapping[str, str] | None]
    wait_seconds: pulumi.Output[int | None]
    drain_seconds: pulumi.Output[int | None]
    ready_workers: pulumi.Output[int]
    missing_workers: pulumi.Output[int]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[SlurmWorkersInputs],
    ) -> None:
        """Declare the workers."""
        super().__init__(resource_name, inputs, opts)
