"""The actor in the cluster: what requeues the jobs of a failed node (`actor/`, docs/node-failure.md).

Owns its Deployment of two, one of which leads, its files, its service account and what that may do: look at nodes and
at pods of Slurm, change nodes, write events, hold one lease; with a webhook, keep one ConfigMap. It has a token of
Slurm's own user, which the operator renews.

What breaks if violated: without it a cordon only drains. The job runs on, on the broken node, and the disruption budget
of busy workers then blocks the eviction.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi

from components.cluster import Cluster
from components.kubernetes import KubernetesObject, digest
from components.slurm import conf_files
from components.slurm.charts import NAMESPACE, OFF_GPU_NODES
from components.slurm.objects import Pods, Spec
from components.slurm.settings import SlurmSettings

NAME = "slurm-actor"
SLURM_USER = "slurm"
TOKEN_SECRET = "slurm-token-actor"  # noqa: S105 (the name of a Secret)
FOLDER = "/opt/gpuplatform"
EVENTS_NAMESPACE = "default"
"""Events about nodes, which have no namespace, live here."""

WEBHOOK_SECRET, WEBHOOK_KEY = "slurm-notify", "url"
"""The Secret with the webhook's URL, which the actor reads as a file."""
NOTICES = "slurm-actor-notices"
"""ConfigMap in which the actor keeps what it has told (`actor/notify.py`)."""

_SOURCE = Path(__file__).parents[2] / "actor"
_GROUP = "rbac.authorization.k8s.io"
_LABELS = {"app.kubernetes.io/name": NAME}
_NOBODY = 65534

RULES: Mapping[tuple[str, str | None], Sequence[Spec]] = {
    ("ClusterRole", None): [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]}],
    ("Role", NAMESPACE): [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        # A name can't be asked for at the creation, since there is none yet.
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [NAME],
            "verbs": ["get", "update"],
        },
    ],
    ("Role", EVENTS_NAMESPACE): [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}],
}
"""What it may do, by kind of role and namespace."""

NOTIFY_RULES: Sequence[Spec] = (
    {"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NOTICES], "verbs": ["get", "update"]},
)
"""What it may do besides in Slurm's namespace, where it tells a webhook."""


def files() -> dict[str, str]:
    """The program, by file name."""
    return {each.name: each.read_text() for each in sorted(_SOURCE.glob("*.py"))}


def settings(slurm: SlurmSettings, pools: Sequence[str], *, cluster: str) -> dict[str, Any]:
    """What the actor is told; `pools` are the physical names of the node pools with workers, `cluster` Slurm's own."""
    return {
        "conditions": list(slurm.node_conditions),
        # Only a topology needs them, and without one another pool is no reason for another actor.
        "pools": list(pools) if slurm.topology.kind != "none" else [],
        "cred_expire": slurm.timing.cred_expire,
        "repair_budget": slurm.failure.repair_budget,
        "opt_out_label": slurm.failure.opt_out_label or "",
        "topology_kind": slurm.topology.kind,
        "topology_name": conf_files.TOPOLOGY,
        "default_leaf": slurm.topology.default_leaf,
        "leaves": list(slurm.topology.leaves),
        "namespace": NAMESPACE,
        **({"notify": list(slurm.notify.states), "cluster": cluster} if slurm.notify else {}),
    }


def deployment(pods: Pods, told: Mapping[str, Any]) -> Spec:
    """The Deployment's spec. Other files or settings are other pods."""
    notify = bool(told.get("notify"))
    version = digest([files(), told])
    spread = [
        {
            "weight": 100,
            "podAffinityTerm": {"labelSelector": {"matchLabels": _LABELS}, "topologyKey": "kubernetes.io/hostname"},
        }
    ]
    container = {
        "name": "actor",
        "image": pods.images["python"],
        "command": ["python3", "-m", "actor"],
        "workingDir": FOLDER,
        "env": [
            {"name": "ACTOR_SETTINGS", "value": json.dumps(told, sort_keys=True)},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "program", "mountPath": f"{FOLDER}/actor", "readOnly": True},
            {"name": "token", "mountPath": f"{FOLDER}/token", "readOnly": True},
            *([{"name": "notify", "mountPath": f"{FOLDER}/notify", "readOnly": True}] if notify else []),
        ],
    }
    return {
        "replicas": 2,
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS, "annotations": {"gpuplatform/digest": version}},
            "spec": pods.spec(
                serviceAccountName=NAME,
                priorityClassName="system-cluster-critical",
                affinity={
                    **OFF_GPU_NODES,
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": spread},
                },
                securityContext={
                    "runAsNonRoot": True,
                    "runAsUser": _NOBODY,
                    "runAsGroup": _NOBODY,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                containers=[container],
                volumes=[
                    {"name": "program", "configMap": {"name": NAME}},
                    {"name": "token", "secret": {"secretName": TOKEN_SECRET}},
                    *([{"name": "notify", "secret": {"secretName": WEBHOOK_SECRET}}] if notify else []),
                ],
            ),
        },
    }


def declare(
    name: str,
    spec: Spec,
    *,
    webhook: pulumi.Output[str] | None,
    cluster: Cluster,
    namespace: pulumi.Resource,
    after: Sequence[pulumi.Resource],
    parent: pulumi.Resource,
) -> None:
    """Declare the actor and all that it needs; `after` is what it works with, its token first of all.

    `webhook` is the URL that jobs' ends are told to, a secret; None for none.
    """

    def inside(
        thing: str,
        api_version: str,
        kind: str,
        home: str | None,
        fields: Mapping[str, Any],
        before: Sequence[pulumi.Resource],
        called: str = NAME,
    ) -> KubernetesObject:
        metadata = {"name": called, **({"namespace": home} if home else {})}
        return KubernetesObject(
            f"{name}-{thing}", api_version, kind, metadata, fields, cluster.inside(parent, [namespace, *before])
        )

    account = inside("account", "v1", "ServiceAccount", NAMESPACE, {}, [])
    program = inside("program", "v1", "ConfigMap", NAMESPACE, {"data": files()}, [])
    needed: list[pulumi.Resource] = [account, program]
    if webhook is not None:
        url = {"stringData": {WEBHOOK_KEY: webhook}}
        needed.append(inside("webhook", "v1", "Secret", NAMESPACE, url, [], WEBHOOK_SECRET))
    for (kind, home), least in RULES.items():
        rules = [*least, *(NOTIFY_RULES if webhook is not None and home == NAMESPACE else ())]
        thing = f"{kind.lower()}-{home or 'all'}"
        role = inside(thing, f"{_GROUP}/v1", kind, home, {"rules": rules}, [])
        fields = {
            "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        }
        needed.append(inside(f"{thing}-binding", f"{_GROUP}/v1", f"{kind}Binding", home, fields, [role, account]))
    inside("deployment", "apps/v1", "Deployment", NAMESPACE, {"spec": spec}, [*needed, *after])
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}}
    inside("budget", "policy/v1", "PodDisruptionBudget", NAMESPACE, budget, [])
