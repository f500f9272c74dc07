"""Stacks for the Pulumi Kubernetes Operator: objects that bring a stack up from git, and one that only looks.

Facts of the kinds are those of the operator's Go types, version 2.9 (pulumi/pulumi-kubernetes-operator, Apache-2.0:
operator/api/pulumi/shared/stack_types.go, operator/api/auto/v1alpha1/workspace_types.go). A stack has two
Stacks: one deploys what a branch holds; one previews with a refresh, by keys that only read, and is not ready where
something differs. Credentials are named by Secret and key, and stand in none of the objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_NAME = 42
"""Characters of a Stack's name, of which the operator makes pods' names."""

WORKSPACE = "/share/workspace"
"""Where a workspace's pod has the folder of the program."""

SECRETS = ("PULUMI_CONFIG_PASSPHRASE", "CRUSOE_ACCESS_KEY_ID", "CRUSOE_SECRET_KEY")
"""What the Secret of a Stack holds, each under the name of its variable."""

DRIFT_SECONDS = 6 * 3600
"""Between two looks for drift."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

Object = dict[str, object]


class OperatorStackError(ValueError):
    """There can be no such Stack; `str()` is one sentence."""


@dataclass(frozen=True)
class Source:
    """Where the program comes from: a repository's branch, or a Flux source of that kind and name."""

    repository: str = ""
    branch: str = "main"
    folder: str = ""
    flux: str = ""
    flux_kind: str = "GitRepository"

    def fields(self) -> Object:
        """Return the part of a Stack that names it."""
        if self.flux:
            reference = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": self.flux_kind, "name": self.flux}
            return {"fluxSource": {"sourceRef": reference, **({"dir": self.folder} if self.folder else {})}}
        place = {"repoDir": self.folder} if self.folder else {}
        return {"projectRepo": self.repository, "branch": self.branch, "shallow": True, **place}


@dataclass(frozen=True)
class Wish:
    """What a stack's objects are made from.

    Attributes:
        stack: as Pulumi calls it.
        source: where the program comes from.
        backend: where the state is kept.
        image: of the workspace, with the version of Pulumi that this project pins.
        namespace: where the objects live.
        secrets_provider: as the stack's file has it; empty for a passphrase.
        after: a stack that has to have succeeded before.
    """

    stack: str
    source: Source
    backend: str
    image: str
    namespace: str = "pulumi"
    secrets_provider: str = ""
    after: str = ""


def files(wish: Wish) -> dict[str, list[Object]]:
    """Return the objects of a stack by the file they belong in, in the order of a kustomization.

    Raises:
        OperatorStackError: there can be no such Stack.
    """
    name = wish.stack.rpartition("/")[2]
    _check(wish, name)
    prerequisites: Object = {"prerequisites": [{"name": wish.after}]} if wish.after else {}
    deploys: Object = {**_common(wish, name, wish.stack, name), **prerequisites}
    looks: Object = {
        **_common(wish, f"{name}-drift", wish.stack, f"{name}-preview"),
        "preview": True,
        "expectNoRefreshChanges": True,
        "continueResyncOnCommitMatch": True,
        "resyncFrequencySeconds": DRIFT_SECONDS,
    }
    found = {
        "service-account.yaml": _identity(wish, name),
        "stack.yaml": [_stack(wish, name, deploys)],
        "drift.yaml": [_stack(wish, f"{name}-drift", looks)],
    }
    kustomization: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": wish.namespace,
        "resources": list(found),
    }
    return {"kustomization.yaml": [kustomization], **found}


def _check(wish: Wish, name: str) -> None:
    longest = LONGEST_NAME - len("-drift")
    if not _NAME.fullmatch(name) or len(name) > longest:
        raise OperatorStackError(
            f"{name!r} can't be a Stack's name: it takes at most {longest} lower-case letters, digits and hyphens."
        )
    if not wish.backend or wish.backend.startswith("file:"):
        raise OperatorStackError(
            f"A workspace's files end with its pod, so {name} needs a backend that stays: name it as `state:backend` "
            "in the stack's file, such as s3://bucket."
        )
    if not wish.source.flux and not wish.source.repository:
        raise OperatorStackError(
            "Name where the program comes from: --repository URL, or --flux NAME of a Flux source."
        )
    if re.search(r"://[^/@]*:[^/@]*@", wish.source.repository):
        raise OperatorStackError("The repository's address holds a password: leave it out, and use `gitAuth`.")


def _common(wish: Wish, account: str, stack: str, secret: str) -> Object:
    """What both Stacks of a stack have."""
    provider: Object = {"secretsProvider": wish.secrets_provider} if wish.secrets_provider else {}
    return {
        **wish.source.fields(),
        "stack": stack,
        "backend": wish.backend,
        **provider,
        # A slip in a name must not begin an empty stack beside the real one.
        "useLocalStackOnly": True,
        "refresh": True,
        # The platform outlives the object that deploys it.
        "destroyOnFinalize": False,
        "serviceAccountName": account.removesuffix("-drift"),
        "envRefs": {key: {"type": "Secret", "secret": {"name": secret, "key": key}} for key in SECRETS},
        "workspaceTemplate": {
            "spec": {
                "image": wish.image,
                "env": [
                    {"name": "PULUMI_OPTION_POLICY_PACK", "value": f"{WORKSPACE}/policies"},
                    {"name": "PULUMI_SKIP_UPDATE_CHECK", "value": "true"},
                ],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            }
        },
    }


def _stack(wish: Wish, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": wish.namespace}
    return {"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": metadata, "spec": spec}


def _identity(wish: Wish, name: str) -> list[Object]:
    """A workspace's service account; its agent asks the API server who calls it."""
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": wish.namespace}},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{wish.namespace}-{name}-auth-delegator"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:auth-delegator"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": wish.namespace}],
        },
    ]
