"""Objects inside a cluster, declared from plain manifests.

The generated classes of Pulumi's Kubernetes SDK load every kind of an API group for the sake of one, which costs each
preview seconds. A manifest needs none of them: the plugin behind them knows the kinds by the same tokens, and the
cluster's schema checks the fields.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes import Provider

Manifest = Mapping[str, Any]
"""Fields of an object other than `apiVersion`, `kind` and `metadata`; any value may be an output."""

SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
"""Annotation of an object that `up` must not wait for, since what it waits for comes later."""

TAKE_OVER = {"pulumi.com/patchForce": "true"}
"""Annotation of every object: a field that somebody else has changed shows as a change, and `up` takes it back.

Without it a preview fails on the conflict and shows nothing. The provider's option of this name forces no dry run.
"""


class KubernetesObject(pulumi.CustomResource):
    """One object of any kind.

    Attributes:
        status: as the plugin read it when the object was ready; keys as in the API.
        spec: the same of what was asked for, if the kind has it, with what the API server filled in.
    """

    status: pulumi.Output[Any]
    spec: pulumi.Output[Any]

    def __init__(
        self,
        resource_name: str,
        api_version: str,
        kind: str,
        metadata: Mapping[str, Any],
        fields: Manifest,
        opts: pulumi.ResourceOptions,
        *,
        patch: bool = False,
    ) -> None:
        """Declare the object `metadata.name`, with the Kubernetes provider of `opts`.

        With `patch` only these fields of an object that is somebody else's, which stays when this goes.
        """
        if kind == "Secret":
            hidden = pulumi.ResourceOptions(additional_secret_outputs=["data", "stringData"])
            opts = pulumi.ResourceOptions.merge(opts, hidden)
        ours = {**metadata, "annotations": {**metadata.get("annotations", {}), **TAKE_OVER}}
        properties = {"apiVersion": api_version, "kind": kind, "metadata": ours, **fields, "status": None}
        super().__init__(token(api_version, f"{kind}Patch" if patch else kind), resource_name, properties, opts)


class HelmRelease(pulumi.CustomResource):
    """A Helm release, made by the Helm inside Pulumi's Kubernetes plugin. Inputs as in `helm.v3.Release`."""

    def __init__(self, resource_name: str, properties: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        """Declare the release, with the Kubernetes provider of `opts`."""
        super().__init__("kubernetes:helm.sh/v3:Release", resource_name, {**properties, "status": None}, opts)


def token(api_version: str, kind: str) -> str:
    """Pulumi's type token of a kind: `kubernetes:core/v1:Secret`, `kubernetes:slinky.slurm.net/v1beta1:NodeSet`."""
    group_version = api_version if "/" in api_version else f"core/{api_version}"
    return f"kubernetes:{group_version}:{kind}"


def digest(value: object) -> str:
    """64 hex digits that change when a plain value does: for annotations and triggers of what depends on it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=dict).encode()).hexdigest()


def cluster_provider(name: str, kubeconfig: pulumi.Input[str], parent: pulumi.Resource) -> Provider:
    """Declare `<name>-kubernetes`, the one provider of a cluster's objects."""
    return Provider(
        f"{name}-kubernetes",
        kubeconfig=kubeconfig,
        # Never changes, so the provider is never replaced, only told the new kubeconfig: an update that fails after a
        # replaced provider is gone leaves objects in state that no later run can load (docs/decisions/0007). The
        # replacement trigger of its objects is what sends them to another control plane.
        cluster_identifier=name,
        # Changed in place: replaced, a ConfigMap would be missing for a moment, and the key of Slurm's tokens would
        # take all tokens with it.
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        opts=pulumi.ResourceOptions(parent=parent),
    )
