"""The AutoClusters configuration of a CMK v1 cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, Unpack

import pulumi

from crusoe.resources.base import CrusoeResource


class AutoClustersConfigInputs(TypedDict):
    """Inputs of an AutoClusters configuration.

    Attributes:
        cluster_id: id of the cluster; a change replaces.
        remediation_actions: issues to repair, such as `{"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}`; every other issue of
            the cluster's catalogue is set to OFF.
        fallback_to_project_reservations: whether a repair may use reserved capacity; only sent when given.
    """

    cluster_id: pulumi.Input[str]
    remediation_actions: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]] | None]
    fallback_to_project_reservations: NotRequired[pulumi.Input[bool] | None]


class AutoClustersConfig(CrusoeResource, inputs=AutoClustersConfigInputs):
    """Automatic repair on a CMK v1 cluster. On CMK v2 it is `consent_mode` of each pool."""

    cluster_id: pulumi.Output[str]
    remediation_actions: pulumi.Output[Mapping[str, str] | None]
    fallback_to_project_reservations: pulumi.Output[bool | None]
    actions: pulumi.Output[Mapping[str, str]]
    overrides_set: pulumi.Output[Sequence[str]]

    def __init__(
        self,
        resource_name: str,
        /,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **inputs: Unpack[AutoClustersConfigInputs],
    ) -> None:
        """Declare the configuration."""
        super().__init__(resource_name, inputs, opts)
