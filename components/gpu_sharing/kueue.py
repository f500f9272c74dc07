"""Engine `kueue`: the release's values, and its flavors, cohorts and queues. Pure functions from a plan.

Kueue's quota is a number, not a set of nodes. To give training its floor back it ends pods until the number is right,
on whatever nodes they are, the last that came first, and ignores disruption budgets (tests/integration shows both). So
only whole-node replicas are shared by it, where every number is a number of nodes, and no floor is lent that somebody
would have to give back. For the same reason there are no homes here.

What breaks if violated: the nominal quotas of a cohort, its own among them, are exactly the GPUs of the pool less the
reserve. With more, pods are admitted that never start; with less, nodes stand empty. Kueue accepts both without a word.
"""

import json
from typing import Any

from components.gpu_sharing.plan import Share, SharedPool, SharingPlan
from components.slurm import charts
from components.slurm.charts import NAMESPACE as SLURM
from components.slurm.charts import Chart
from components.slurm.objects import POOL_LABEL
from crusoe.rules.gpu_units import gpus_of

Manifest = dict[str, Any]

VERSION = "0.17.0"
"""The newest that could be built and run here (docs/decisions/0011)."""
CHARTS, IMAGE = "oci://registry.k8s.io/kueue/charts", "registry.k8s.io/kueue/kueue"
NAMESPACE = "kueue-system"
API = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
RANK_LABEL, BURST_RANK = "kueue.x-k8s.io/priority-class", "gpu-burst"
"""Label and rank, in Kueue alone, of what goes first when a share has to give back."""
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"

NOT_COUNTED = ("cpu", "memory", "ephemeral-storage", "hugepages-", "nvidia.com/hostdev", "rdma/")
"""Prefixes of what pods ask for beside GPUs. A queue never admits a pod that asks for anything it does not cover."""


_ORDER = ("ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")
"""Each kind names objects of those before it."""


def training_queue(pool: SharedPool) -> str:
    """Name of training's queue in a pool."""
    return f"training-{pool.key}"


def inference_queue(pool: SharedPool, share: Share) -> str:
    """Name of a share's queue."""
    return f"inference-{pool.key}-{share.name}"


def nominal(pool: SharedPool) -> dict[str, int]:
    """Nominal GPUs by owner: training's queue, each share's, and the cohort itself for what is nobody's."""
    parts = {training_queue(pool): pool.floor_gpus}
    parts |= {inference_queue(pool, share): share.floor_gpus for share in pool.shares}
    whole = gpus_of(pool.least - pool.reserve, pool.gpus)
    return {**parts, _cohort_name(pool): whole - sum(parts.values())}


def manifests(plan: SharingPlan) -> list[Manifest]:
    """The rank of bursts, then flavor, cohort and queues of each pool that Kueue shares."""
    pools = plan.of("kueue")
    found = [each for pool in pools for each in _pool(pool)]
    rank = {
        "apiVersion": API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": BURST_RANK},
        "value": -100,
        "description": "Inference beyond its guarantee.",
    }
    return [*([rank] if pools else []), *sorted(found, key=lambda each: _ORDER.index(each["kind"]))]


def _pool(pool: SharedPool) -> list[Manifest]:
    parts = nominal(pool)
    found = [_flavor(pool), _cohort(pool, parts[_cohort_name(pool)])]
    # An idle floor is lent only where something makes its workers go.
    lent = pool.floor_gpus if pool.demand else 0
    queue = training_queue(pool)
    found += [
        _cluster_queue(pool, queue, SLURM, parts[queue], pool.borrowed_gpus, lent),
        _local_queue(queue, SLURM),
    ]
    for share in pool.shares:
        queue = inference_queue(pool, share)
        # Lent, a floor would be gone for as long as a rollout takes to replace a replica.
        found += [
            _cluster_queue(pool, queue, share.namespace, parts[queue], share.burst_gpus, 0),
            _local_queue(queue, share.namespace),
        ]
    return found


def _flavor(pool: SharedPool) -> Manifest:
    """The pool's nodes. What is admitted gets their label and tolerations, so that no template needs them."""
    spec = {"nodeLabels": {POOL_LABEL: pool.node_pool}, "tolerations": [*pool.tolerations]}
    return _object("ResourceFlavor", {"name": pool.key}, spec)


def _cohort_name(pool: SharedPool) -> str:
    return f"gpu-{pool.key}"


def _cohort(pool: SharedPool, gpus: int) -> Manifest:
    return _object("Cohort", {"name": _cohort_name(pool)}, {"resourceGroups": [_group(pool, {"nominalQuota": gpus})]})


def _cluster_queue(pool: SharedPool, name: str, namespace: str, gpus: int, borrowed: int, lent: int) -> Manifest:
    quota = {"nominalQuota": gpus, "borrowingLimit": borrowed, "lendingLimit": lent}
    spec = {
        "cohortName": _cohort_name(pool),
        "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: namespace}},
        "resourceGroups": [_group(pool, quota)],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }
    return _object("ClusterQueue", {"name": name}, spec)


def _group(pool: SharedPool, quota: dict[str, int]) -> Manifest:
    resource = {"name": pool.resource, **{key: str(gpus) for key, gpus in quota.items()}}
    return {"coveredResources": [pool.resource], "flavors": [{"name": pool.key, "resources": [resource]}]}


def _local_queue(name: str, namespace: str) -> Manifest:
    return _object("LocalQueue", {"name": name, "namespace": namespace}, {"clusterQueue": name})


def _object(kind: str, metadata: dict[str, str], spec: Manifest) -> Manifest:
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def configuration(plan: SharingPlan) -> Manifest:
    """The manager's configuration: only the namespaces with a share, pods and Deployments, classic preemption.

    Outside these namespaces a stopped Kueue stops nothing.
    """
    namespaces = [SLURM, *plan.share_namespaces]
    selector = {"key": _NAMESPACE_LABEL, "operator": "In", "values": namespaces}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "manageJobsWithoutQueueName": False,
        "managedJobsNamespaceSelector": {"matchExpressions": [selector]},
        "integrations": {"frameworks": ["pod", "deployment"]},
        # Cores and memory are the scheduler's business; a queue that covers GPUs only would never admit such a pod.
        "resources": {"excludeResourcePrefixes": [*NOT_COUNTED]},
        "waitForPodsReady": {"timeout": f"{plan.ready_minutes}m", "recoveryTimeout": f"{plan.ready_minutes}m"},
    }


def chart(plan: SharingPlan) -> Chart:
    """The release."""
    return charts.chart("kueue", VERSION, NAMESPACE, values(plan), plan.charts.source, public=CHARTS)


def values(plan: SharingPlan) -> Manifest:
    """Values of the chart: two managers on nodes without GPUs, with a budget.

    The chart takes no affinity, so a pool of CPU nodes is named.
    """
    return {
        "controllerManager": {
            "replicas": 2,
            "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
            # The chart of the module names the image of a branch.
            "manager": {
                "image": {"repository": IMAGE, "tag": f"v{VERSION}", "pullPolicy": "IfNotPresent"},
                "priorityClassName": "system-cluster-critical",
            },
            "nodeSelector": {POOL_LABEL: plan.system_pool} if plan.system_pool else {},
        },
        # JSON is YAML, and has one way to be written.
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(configuration(plan), indent=2)},
    }
