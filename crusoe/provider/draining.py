"""Draining a node pool: no new pods on its nodes, and those that run there are asked to leave.

As `kubectl drain` does it: through the eviction API, which keeps to disruption budgets; without the pods of DaemonSets,
which stay as long as their node does; and only those pods that were there when the nodes were cordoned, since one that
comes later wants to be on a cordoned node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from crusoe.client import Cancelled
from crusoe.provider.cluster_api import MERGE_PATCH, ClusterApi
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError

if TYPE_CHECKING:
    from crusoe.provider.run import Run

DRAIN_SECONDS = 1800.0
"""For how long pods are asked to leave. Longer than a job's last checkpoint takes, shorter than a person waits."""

SHOWN_PODS = 5


def drain(run: Run, cluster_id: str, pool_id: str, pool_name: str) -> None:
    """Cordon all nodes of a pool and evict their pods, until none is left.

    Raises:
        CrusoeError, RefusalError: it can't be done, or pods are still there after `DRAIN_SECONDS`; what was cordoned
            stays so, and the next run goes on.
    """
    with ClusterApi(run.client, cluster_id) as api:
        nodes = _nodes(api, pool_id)
        for node in nodes:
            _schedulable(api, node, wanted=False)
        leaving = {_uid(pod) for pod in _pods(api, nodes)}
        left: list[str] = []

        def empty() -> bool | None:
            left[:] = [_evict(api, pod) for pod in _pods(api, nodes) if _uid(pod) in leaving]
            run.progress(f"draining node pool {pool_name}: {len(left)} pods left on {len(nodes)} nodes")
            return None if left else True

        try:
            done = run.until(empty, DRAIN_SECONDS)
        except Cancelled:
            raise RefusalError(f"{_remaining(pool_name, left)} The run was cancelled; the next one goes on.") from None
        if done is None:
            fix = "End those pods, or loosen what holds them, and run the same command again."
            raise RefusalError(f"{_remaining(pool_name, left)} {fix}")


def _remaining(pool_name: str, left: Sequence[str]) -> str:
    more = f" and {len(left) - SHOWN_PODS} more" if len(left) > SHOWN_PODS else ""
    return f"Node pool {pool_name} still runs {', '.join(left[:SHOWN_PODS])}{more}; its nodes take no new pods."


def resume(run: Run, cluster_id: str, pool_id: str) -> None:
    """Let the nodes of a pool take pods again."""
    with ClusterApi(run.client, cluster_id) as api:
        for node in _nodes(api, pool_id):
            _schedulable(api, node, wanted=True)


def _nodes(api: ClusterApi, pool_id: str) -> list[str]:
    """Names of the pool's nodes."""
    selector = quote(f"crusoe.ai/nodepool.id={pool_id}")
    return [text(_part(node, "metadata"), "name") or "" for node in _items(api, f"nodes?labelSelector={selector}")]


def _schedulable(api: ClusterApi, node: str, *, wanted: bool) -> None:
    status, answer = api.ask(
        "PATCH", f"/api/v1/nodes/{quote(node)}", {"spec": {"unschedulable": None if wanted else True}}, MERGE_PATCH
    )
    # A node that a repair has just taken away needs no cordon.
    if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.NOT_FOUND:
        raise RefusalError(f"Node {node} could not be {'un' if wanted else ''}cordoned: {text(answer, 'message')}.")


def _pods(api: ClusterApi, nodes: Sequence[str]) -> Iterator[JsonObject]:
    """Pods on these nodes that have to leave."""
    for pod in _items(api, "pods"):
        metadata = _part(pod, "metadata")
        owners = cast("list[JsonObject]", metadata.get("ownerReferences") or [])
        stays = any(owner.get("kind") == "DaemonSet" for owner in owners)
        mirror = "kubernetes.io/config.mirror" in _part(metadata, "annotations")
        ended = text(_part(pod, "status"), "phase") in {"Succeeded", "Failed"}
        if text(_part(pod, "spec"), "nodeName") in nodes and not (stays or mirror or ended):
            yield pod


def _uid(pod: JsonObject) -> str | None:
    return text(_part(pod, "metadata"), "uid")


def _evict(api: ClusterApi, pod: JsonObject) -> str:
    """Ask a pod to leave; return it in words with what holds it."""
    metadata = _part(pod, "metadata")
    namespace, name = text(metadata, "namespace") or "", text(metadata, "name") or ""
    if metadata.get("deletionTimestamp"):
        return f"{namespace}/{name} (ending)"
    body: JsonObject = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    status, answer = api.ask("POST", f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/eviction", body)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return f"{namespace}/{name} (held by a disruption budget)"
    if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.NOT_FOUND:
        return f"{namespace}/{name} ({text(answer, 'message')})"
    return f"{namespace}/{name} (ending)"


def _items(api: ClusterApi, path: str) -> list[JsonObject]:
    status, answer = api.ask("GET", f"/api/v1/{path}")
    if status != HTTPStatus.OK:
        raise RefusalError(f"The cluster's API refused to list {path.partition('?')[0]}: {text(answer, 'message')}.")
    return cast("list[JsonObject]", answer.get("items") or [])


def _part(fields: JsonObject, key: str) -> JsonObject:
    part = fields.get(key)
    return cast("JsonObject", part) if isinstance(part, dict) else {}
