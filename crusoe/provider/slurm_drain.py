"""Draining the workers of a NodeSet before it is deleted, which would kill them with their jobs (Slinky 1.2.1)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from crusoe.client import Cancelled
from crusoe.client.answers import as_object
from crusoe.provider import cluster_events, slinky_objects
from crusoe.provider.cluster_api import MERGE_PATCH
from crusoe.provider.existing import JsonObject, text
from crusoe.provider.faults import RefusalError
from crusoe.provider.slinky_objects import BUSY, Workers

if TYPE_CHECKING:
    from crusoe.provider.cluster_api import ClusterApi
    from crusoe.provider.run import Run

NOTICE_SECONDS: Final = 300
"""How long the operator may take to notice that the workers are to go; it does nothing without slurmrestd."""

SHOWN_WORKERS: Final = 5


def drain(run: Run, api: ClusterApi, namespace: str, name: str, seconds: int) -> None:
    """Have the operator drain and delete every worker; one whose NodeSet is gone or going is done.

    Raises:
        RefusalError: the API server refuses or does not answer, or workers are still there after `seconds`.
    """
    what = f"NodeSet {namespace}/{name}"
    seen: list[Workers] = []
    try:
        if not _scale_to_nothing(api, namespace, name):
            return
        asked = run.now

        def look() -> bool | None:
            now = slinky_objects.fetch(api, "NodeSet", namespace, name)
            if now is None:
                return True
            seen[:] = [Workers.of(now)]
            run.progress(f"draining {what}: {slinky_objects.workers(seen[0].there)} left")
            if seen[0].there == 0 and (seen[0].current or not slinky_objects.worker_pods(api, namespace, name)):
                return True
            return None if seen[0].current or run.now - asked < NOTICE_SECONDS else False

        done = slinky_objects.until(run, look, seconds)
    except Cancelled:
        left = f"{slinky_objects.workers(seen[0].there)} left" if seen else "only just begun"
        raise RefusalError(f"{what} is being drained, {left}. The run was cancelled; the next one goes on.") from None
    except RefusalError as error:
        raise RefusalError(
            f"{error} {what} was not drained. If its cluster is lost for good, take its workers out of the state with"
            f" `pulumi state delete '{run.urn}'`."
        ) from None
    if not done:
        raise RefusalError(_remaining(api, namespace, name, seconds, seen[0]))


def _scale_to_nothing(api: ClusterApi, namespace: str, name: str) -> bool:
    """Ask for no workers; False when there is nothing to drain."""
    node_set = slinky_objects.fetch(api, "NodeSet", namespace, name)
    if node_set is None or text(as_object(node_set.get("metadata")), "deletionTimestamp"):
        return False
    spec: JsonObject = {"replicas": 0}
    if as_object(node_set.get("spec")).get("scalingMode") == "DaemonSet":
        # There replicas have no effect, but workers of another mode than the NodeSet's are drained and deleted.
        spec["scalingMode"] = "StatefulSet"
    status, answer = api.ask("PATCH", slinky_objects.path("NodeSet", namespace, name), {"spec": spec}, MERGE_PATCH)
    if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.NOT_FOUND:
        raise RefusalError(f"NodeSet {namespace}/{name} can't be scaled to 0: {text(answer, 'message')}.")
    return status != HTTPStatus.NOT_FOUND


def _remaining(api: ClusterApi, namespace: str, name: str, seconds: int, left: Workers) -> str:
    what = f"NodeSet {namespace}/{name} still has {slinky_objects.workers(left.there)}"
    if not left.current:
        told = cluster_events.told(api, namespace, [name])
        return (
            f"{what}, and its operator does not take up that they are to go. {told} See that Deployment slurm-operator"
            " runs, then run the same command again."
        )
    pods = slinky_objects.worker_pods(api, namespace, name)
    busy = sorted(slinky_objects.slurm_name(pod) for pod in pods if BUSY & {*slinky_objects.conditions(pod, "True")})
    if not busy:
        return f"{what} after {seconds} s, none of them busy. {cluster_events.told(api, namespace, [name])}"
    names = ",".join(busy[:SHOWN_WORKERS])
    more = f" and {len(busy) - SHOWN_WORKERS} more" if len(busy) > SHOWN_WORKERS else ""
    return (
        f"{what} after {seconds} s; jobs run on {names}{more}, which take no new ones. Let them end and run the same"
        f" command again, end them with `scancel --nodelist={names}`, or give drainSeconds more time. To keep the"
        f" workers after all, `kubectl --namespace {namespace} scale nodeset/{name} --replicas=...`."
    )
