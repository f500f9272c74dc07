"""What makes replicas and lent floors come and go: KEDA's ScaledObjects and HPAs. Pure functions.

Numbers are scaled, quotas and classes never: those are declared, and anything that changed them at run time would be
drift. Whatever is scaled has no number of its own in its manifest.

A time window raises a number and can't hold one down, since the largest trigger counts.
"""

from collections.abc import Sequence
from typing import Any

from components.gpu_sharing.plan import Share, SharedPool
from components.gpu_sharing.settings import ScalingSettings, WindowSettings
from components.slurm.charts import NAMESPACE as SLURM
from crusoe.rules.slinky import API_VERSION

Manifest = dict[str, Any]

STEP_SECONDS = 60
"""Burst replicas come a node's worth at a time, this often at most: the first one costs training the whole node."""
FAILED_POLLS = 3


def floor(pool: SharedPool) -> list[Manifest]:
    """Training's floor by demand: nodes in use and what the largest waiting job needs, up to the floor.

    With Kueue up to the ceiling. A job may wait in any partition that has the pool. On the loss of its metrics training
    has its whole floor.
    """
    if pool.demand is None:
        return []
    demand, most = pool.demand, pool.ceiling if pool.engine == "kueue" else pool.floor
    own, waiting = f'{{partition="{pool.key}"}}', f'{{partition=~"{"|".join((pool.key, *pool.partitions))}"}}'
    query = (
        f"sum(slurm_partition_nodes_alloc{own}) + sum(slurm_partition_nodes_mixed{own}) + "
        f"max(slurm_partition_jobs_min_job_nodes_nohold{waiting})"
    )
    spec = _scaled(
        {"apiVersion": API_VERSION, "kind": "NodeSet", "name": pool.key},
        [_prometheus(demand.prometheus, query, 1), *_windows(demand.windows)],
        least=min(demand.warm_nodes, most),
        most=most,
        fallback=pool.floor,
        scale_down=_scale_down(demand.stabilization_seconds, 1),
    )
    return [_object(pool.key, SLURM, spec)]


def burst(pool: SharedPool, share: Share, scaling: ScalingSettings, target: str) -> Manifest:
    """Scaling of a share's burst Deployment, `target`: by KEDA down to none, by an HPA down to one.

    KEDA's query has the floor's capacity taken off. Kubernetes' own autoscaler goes down to none only behind the gate
    HPAScaleToZero, which is off in all versions up to 1.36.
    """
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    scale_down = _scale_down(max(scaling.stabilization_seconds, min(3600, 2 * pool.drain_budget)), share.per_node)
    if scaling.prometheus:
        query = f"clamp_min(({scaling.metric}) - {share.floor * scaling.per_replica}, 0)"
        spec = _scaled(
            reference,
            [_prometheus(scaling.prometheus, query, scaling.per_replica), *_windows(scaling.windows)],
            least=0,
            most=share.burst,
            fallback=0,
            scale_down=scale_down,
            scale_up=_scale_up(share.per_node),
        )
        return _object(target, share.namespace, spec)
    target_value = {"type": "AverageValue", "averageValue": str(scaling.per_replica)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": target, "namespace": share.namespace},
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": 1,
            "maxReplicas": share.burst,
            "metrics": [{"type": "External", "external": {"metric": {"name": scaling.metric}, "target": target_value}}],
            "behavior": {"scaleDown": scale_down, "scaleUp": _scale_up(share.per_node)},
        },
    }


def _scaled(
    reference: Manifest,
    triggers: Sequence[Manifest],
    *,
    least: int,
    most: int,
    fallback: int,
    scale_down: Manifest,
    scale_up: Manifest | None = None,
) -> Manifest:
    behavior = {"scaleDown": scale_down, **({"scaleUp": scale_up} if scale_up else {})}
    return {
        "scaleTargetRef": reference,
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "fallback": {"failureThreshold": FAILED_POLLS, "replicas": fallback},
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
        "triggers": [*triggers],
    }


def _prometheus(address: str, query: str, threshold: int) -> Manifest:
    # The average makes the number of replicas the query's value by itself; a plain value would multiply what is there.
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {"serverAddress": address, "query": query, "threshold": str(threshold)},
    }


def _windows(windows: Sequence[WindowSettings]) -> list[Manifest]:
    return [
        {
            "type": "cron",
            "metadata": {
                "timezone": each.timezone,
                "start": each.start,
                "end": each.end,
                "desiredReplicas": str(each.count),
            },
        }
        for each in windows
    ]


def _scale_down(seconds: int, replicas: int) -> Manifest:
    policy = {"type": "Pods", "value": replicas, "periodSeconds": STEP_SECONDS}
    return {"stabilizationWindowSeconds": seconds, "policies": [policy]}


def _scale_up(replicas: int) -> Manifest:
    return {"policies": [{"type": "Pods", "value": replicas, "periodSeconds": STEP_SECONDS}]}


def _object(name: str, namespace: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": spec}
