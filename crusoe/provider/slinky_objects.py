"""Slinky's objects in a cluster and what its operator made of them, as the cluster's API tells.

The operator writes no readiness into its own objects but the counts of a NodeSet, so the objects that it makes are
looked at: `<name>-controller`, `<name>-accounting`, `<name>-restapi`, `<name>` for a LoginSet (Slinky 1.2.1, observed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar, cast
from urllib.parse import quote

from crusoe.client.answers import as_object
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError

if TYPE_CHECKING:
    from crusoe.provider.cluster_api import ClusterApi
    from crusoe.provider.run import Run

T = TypeVar("T")

SLINKY: Final = "/apis/slinky.slurm.net/v1beta1"
_APPS: Final = "/apis/apps/v1"
_COLLECTIONS: Final = {
    "Deployment": f"{_APPS}/namespaces/{{}}/deployments",
    "StatefulSet": f"{_APPS}/namespaces/{{}}/statefulsets",
    "NodeSet": f"{SLINKY}/namespaces/{{}}/nodesets",
}

CHILDREN: Final = {
    "Controller": ("StatefulSet", "{}-controller"),
    "Accounting": ("StatefulSet", "{}-accounting"),
    "RestApi": ("Deployment", "{}-restapi"),
    "LoginSet": ("Deployment", "{}"),
    "Webhook": ("Deployment", "{}"),
    "Deployment": ("Deployment", "{}"),
    "StatefulSet": ("StatefulSet", "{}"),
}
"""What shows that one of these is ready: kind and name of the object that is made for it."""

RELEASE: Final = "Release"
"""A Helm release, which is ready when all of its Deployments are."""

_RELEASE_OF: Final = "meta.helm.sh/release-name"
"""Annotation that Helm puts on everything that a release brings."""

BUSY: Final = {"SlurmNodeStateAllocated", "SlurmNodeStateMixed", "SlurmNodeStateCompleting"}
"""Conditions of a worker's pod that say that jobs run there."""


def collection(kind: str, namespace: str) -> str:
    """Return the path of a kind's objects in a namespace."""
    return _COLLECTIONS[kind].format(quote(namespace, safe=""))


def path(kind: str, namespace: str, name: str) -> str:
    """Return an object's path."""
    return f"{collection(kind, namespace)}/{quote(name, safe='')}"


def fetch(api: ClusterApi, kind: str, namespace: str, name: str) -> JsonObject | None:
    """Return an object, None when there is none.

    Raises:
        RefusalError: the API server refused or does not answer.
    """
    status, answer = api.ask("GET", path(kind, namespace, name))
    if status == HTTPStatus.NOT_FOUND:
        return None
    if status != HTTPStatus.OK:
        raise RefusalError(_refused(f"show {kind} {namespace}/{name}", answer))
    return answer


def _refused(wish: str, answer: JsonObject) -> str:
    said = text(answer, "message") or "no reason given"
    return f"The cluster's API refused to {wish}: {said}. Run the same command again once it answers."


def until(run: Run, look: Callable[[], T | None], seconds: float) -> T | None:
    """Call `look` as `run.until` does; once it has worked, an API server that fails is waited for.

    Raises:
        RefusalError: the first look failed, or the last one.
        Cancelled: at once when the run is cancelled.
    """
    met = False
    failed: RefusalError | None = None

    def patient() -> T | None:
        nonlocal met, failed
        try:
            found, met, failed = look(), True, None
        except RefusalError as error:
            if not met:
                raise
            failed = error
            run.progress(str(error))
            return None
        return found

    found = run.until(patient, seconds)
    if failed is not None:
        raise failed
    return found


# What an object says


def gap(kind: str, fields: JsonObject | None) -> str | None:
    """Return what a Deployment or StatefulSet lacks to be ready, None when it lacks nothing."""
    if fields is None:
        return "it does not exist"
    spec, status = as_object(fields.get("spec")), as_object(fields.get("status"))
    wanted = number(spec, "replicas", 1)
    if not is_current(fields):
        return "its newest form is not yet taken up"
    ready = number(status, "availableReplicas" if kind == "Deployment" else "readyReplicas")
    if kind == "Deployment":
        ready = min(ready, number(status, "updatedReplicas"))
    return f"{ready} of {wanted} pods are ready" if ready < wanted else None


def release_gap(api: ClusterApi, namespace: str, release: str) -> str | None:
    """Return what the Deployments of a Helm release lack to be ready, None when they lack nothing."""
    found: list[str | None] = []
    for row in items(api, collection("Deployment", namespace)):
        metadata = as_object(row.get("metadata"))
        if text(as_object(metadata.get("annotations")), _RELEASE_OF) == release:
            lacking = gap("Deployment", row)
            found.append(f"Deployment {text(metadata, 'name')}: {lacking}" if lacking else None)
    if not found:
        return "it has no Deployment"
    return ", ".join(each for each in found if each) or None


def is_current(fields: JsonObject) -> bool:
    """Say whether an object's status is that of its newest form."""
    seen = number(as_object(fields.get("status")), "observedGeneration", -1)
    return seen >= number(as_object(fields.get("metadata")), "generation")


@dataclass(frozen=True)
class Workers:
    """The workers of a NodeSet: how many there are to be, are there, are ready, and are known to Slurm."""

    desired: int
    there: int
    ready: int
    registered: int
    current: bool

    @classmethod
    def of(cls, node_set: JsonObject) -> Workers:
        """Read a NodeSet's status, which leaves out counts of zero."""
        status = as_object(node_set.get("status"))
        registered = sum(number(status, name) for name in ("slurmIdle", "slurmAllocated", "slurmDrain"))
        return cls(
            number(status, "desired"),
            number(status, "replicas"),
            number(status, "readyReplicas"),
            registered,
            is_current(node_set),
        )


def workers(count: int) -> str:
    """Return a number of workers in words, such as `1 worker`."""
    return f"{count} worker{'' if count == 1 else 's'}"


def worker_pods(api: ClusterApi, namespace: str, node_set: str) -> list[JsonObject]:
    """Return the pods of a NodeSet's workers."""
    selector = quote(f"app.kubernetes.io/name=slurmd,app.kubernetes.io/instance={node_set}")
    return items(api, f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?labelSelector={selector}")


def items(api: ClusterApi, where: str) -> list[JsonObject]:
    """Return the objects of a list."""
    status, answer = api.ask("GET", where)
    if status != HTTPStatus.OK:
        raise RefusalError(_refused(f"list {where.partition('?')[0]}", answer))
    rows = answer.get("items")
    return [as_object(row) for row in cast("list[object]", rows)] if isinstance(rows, list) else []


def conditions(pod: JsonObject, status: str) -> Iterator[str]:
    """Yield the types of a pod's conditions that have this status, such as `True`."""
    rows = as_object(pod.get("status")).get("conditions")
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        if text(as_object(row), "status") == status:
            yield text(as_object(row), "type") or ""


def slurm_name(pod: JsonObject) -> str:
    """Return the name by which Slurm knows a worker."""
    metadata = as_object(pod.get("metadata"))
    labels = as_object(metadata.get("labels"))
    return text(labels, "nodeset.slinky.slurm.net/pod-hostname") or text(metadata, "name") or ""


def number(fields: JsonObject, name: str, default: int = 0) -> int:
    """Return a whole number."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
