"""A served model: Deployments of floor and burst, one Service over both, budgets and an autoscaler. Pure functions.

The floor has a fixed number of replicas at home; the burst has none of its own, and goes wherever its class lets it.
They are two Deployments because a pod's class and place are those of its whole Deployment: in one, a rollout or a
restart would mix who may be evicted. With Kueue, which decides by quota, both wait in one queue.

What breaks if violated: `up` waits for no replica, since one that waits for a borrowed GPU is no fault; and a rollout
never needs a GPU more than the share has, so it takes one replica away at a time unless the floor may surge, which its
homes have room for. A burst never surges: nobody keeps a GPU free for it.
"""

from collections.abc import Mapping
from typing import Any

from components.gpu_sharing import objects, scaling
from components.gpu_sharing.kueue import BURST_RANK, QUEUE_LABEL, RANK_LABEL, inference_queue
from components.gpu_sharing.objects import INFER_BURST, INFER_FLOOR, PART, POOL, SHARE, SHARED
from components.gpu_sharing.plan import Share, SharedPool, SharingPlan
from components.gpu_sharing.settings import ModelSettings
from components.kubernetes import SKIP_AWAIT
from components.slurm.objects import POOL_LABEL, merged

Manifest = dict[str, Any]

PROBE_SECONDS = 10


def manifests(plan: SharingPlan) -> list[Manifest]:
    """Everything of all models, and what scales training's floors."""
    models = [each for pool in plan.pools for share in pool.shares for each in model(pool, share)]
    return [*models, *(each for pool in plan.pools for each in scaling.floor(pool))]


def model(pool: SharedPool, share: Share) -> list[Manifest]:
    """The objects of one share; none when it is kept for its owner's own Deployments."""
    served = share.model
    if served is None:
        return []
    if pool.engine == "kueue":
        return [*_queued(pool, share, served), _service(pool, share, served)]
    found = [_service(pool, share, served)]
    if share.floor:
        labels = _labels(pool, share, "floor")
        placed = {"priorityClassName": INFER_FLOOR, "affinity": objects.at_home(pool, share.name)}
        found.append(_deployment(share, labels, _pod(pool, share, served, placed)))
        found.append(objects.budget(share.name, share.namespace, labels))
    if share.burst and served.scaling:
        name, labels = burst_name(share), _labels(pool, share, "burst")
        placed = {"priorityClassName": INFER_BURST, "affinity": objects.together(pool)}
        found.append(_deployment(share, labels, _pod(pool, share, served, placed)))
        found.append(objects.budget(name, share.namespace, labels))
        found.append(scaling.burst(pool, share, served.scaling, name))
    return found


def burst_name(share: Share) -> str:
    """Name of a share's burst Deployment."""
    return f"{share.name}-burst"


def _queued(pool: SharedPool, share: Share, served: ModelSettings) -> list[Manifest]:
    """Floor and burst as Kueue has them: one queue, which holds back what is above the quota, the burst first."""
    queue = {QUEUE_LABEL: inference_queue(pool, share)}
    pod = _pod(pool, share, served, {"priorityClassName": SHARED})
    found: list[Manifest] = []
    if share.floor:
        labels = _labels(pool, share, "floor")
        found.append(_deployment(share, labels, pod, queue))
        found.append(objects.budget(share.name, share.namespace, labels))
    if share.burst and served.scaling:
        name, labels = burst_name(share), _labels(pool, share, "burst")
        found.append(_deployment(share, labels, pod, {**queue, RANK_LABEL: BURST_RANK}))
        found.append(objects.budget(name, share.namespace, labels))
        found.append(scaling.burst(pool, share, served.scaling, name))
    return found


def _labels(pool: SharedPool, share: Share, part: str) -> dict[str, str]:
    return {POOL: pool.key, SHARE: share.name, PART: part}


def _deployment(
    share: Share, labels: Mapping[str, str], pod: Manifest, queued: Mapping[str, str] | None = None
) -> Manifest:
    """Floor or burst, as the labels say; `queued` are labels by which Kueue knows its pods."""
    floor = labels[PART] == "floor"
    surge = share.surge if floor else 0
    more = queued or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": share.name if floor else burst_name(share),
            "namespace": share.namespace,
            "labels": {**labels, **more},
            "annotations": {**SKIP_AWAIT},
        },
        "spec": {
            **({"replicas": share.floor} if floor else {}),
            "selector": {"matchLabels": {**labels}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0 if surge else 1},
            },
            "template": {"metadata": {"labels": {**labels, **more}}, "spec": pod},
        },
    }


def _pod(pool: SharedPool, share: Share, served: ModelSettings, placed: Manifest) -> Manifest:
    needs: dict[str, object] = {}
    if served.cpus:
        needs["cpu"] = served.cpus
    if served.memory:
        needs["memory"] = served.memory
    probe = {"httpGet": {"path": served.ready_path, "port": served.port}, "periodSeconds": PROBE_SECONDS}
    base: Manifest = {
        "nodeSelector": {POOL_LABEL: pool.node_pool},
        "tolerations": [*pool.tolerations],
        "terminationGracePeriodSeconds": served.grace_seconds,
        "containers": [
            {
                "name": "server",
                "image": served.image,
                **({"args": [*served.args]} if served.args else {}),
                "ports": [{"name": "http", "containerPort": served.port}],
                "resources": {"requests": needs, "limits": {pool.resource: share.gpus_per_replica}},
                "startupProbe": {**probe, "failureThreshold": -(-served.start_seconds // PROBE_SECONDS)},
                "readinessProbe": probe,
                "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],  # noqa: S108 (a mount point)
            }
        ],
        # Servers of several GPUs talk through it, and a container has 64 MiB unless told.
        "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}],
    }
    return merged(merged(base, served.template), placed)


def _service(pool: SharedPool, share: Share, served: ModelSettings) -> Manifest:
    """One address for floor and burst. It may have no ready replica for a while, which `up` must not wait for."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": share.name, "namespace": share.namespace, "annotations": {**SKIP_AWAIT}},
        "spec": {
            "selector": {POOL: pool.key, SHARE: share.name},
            "ports": [{"name": "http", "port": 80, "targetPort": served.port}],
        },
    }
