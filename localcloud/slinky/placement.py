"""Which Kubernetes nodes a NodeSet in DaemonSet mode has a worker on: pure functions.

As DaemonSets do it: the node selector, the required node affinity, and taints that the pod doesn't tolerate. Taints of
Kubernetes' own, such as that of a cordon, don't count: no worker is made on a cordoned node, but one there stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localcloud.slinky.pods import PREFIX
from localcloud.slinky.values import Object, at, items, name_of, part, words

HOSTNAME_OVERRIDE = f"{PREFIX}/hostname-override"
_KUBERNETES_OWN = "node.kubernetes.io/"
_FIELD = "metadata.name"


def matches(pod_spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether a worker belongs on this node."""
    labels = words(node, "metadata", "labels")
    if any(labels.get(key) != value for key, value in words(pod_spec, "nodeSelector").items()):
        return False
    required = part(pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = items(required, "nodeSelectorTerms")
    if terms and not any(_term(term, labels, name_of(node)) for term in terms):
        return False
    tolerations = items(pod_spec, "tolerations")
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in items(node, "spec", "taints")
        if taint["effect"] in ("NoSchedule", "NoExecute") and not taint["key"].startswith(_KUBERNETES_OWN)
    )


def pinned(pod_spec: Mapping[str, Any], node_name: str) -> Object:
    """The pod spec with an affinity to this one node, whatever other nodes it would accept."""
    term = {"matchFields": [{"key": _FIELD, "operator": "In", "values": [node_name]}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**pod_spec, "affinity": {**part(pod_spec, "affinity"), "nodeAffinity": node_affinity}}


def pinned_node(pod: Mapping[str, Any]) -> str | None:
    """The node that a worker of DaemonSet mode is meant for."""
    required = part(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in items(required, "nodeSelectorTerms"):
        for field in items(term, "matchFields"):
            if field["key"] == _FIELD:
                return str(field["values"][0])
    return at(pod, "spec", "nodeName")


def slurm_name(node: Mapping[str, Any]) -> str:
    """What Slurm calls a node that has a worker in DaemonSet mode."""
    return at(node, "metadata", "annotations", HOSTNAME_OVERRIDE) or name_of(node).split(".")[0]


def _term(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    fields = {_FIELD: name}
    return all(_expression(each, labels) for each in items(term, "matchExpressions")) and all(
        _expression(each, fields) for each in items(term, "matchFields")
    )


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    values: Sequence[str] = expression.get("values") or []
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "In":
        return labels.get(key) in values
    if not labels.get(key, "").lstrip("-").isdigit():
        return False
    return int(labels[key]) > int(values[0]) if operator == "Gt" else int(labels[key]) < int(values[0])


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")
