"""The objects that keep both sides to their parts: pure functions from a plan to manifests.

Owns the namespaces of shares, the PriorityClasses, the quotas, the admission policy, and the homes: pods that only mark
a node as inference's. A home marker is on each home node of a share and asks for no GPU. The share's floor goes only
where its markers are, training's floor only where none is, and everybody of a lower class anywhere. So the homes move
with their markers when a node is replaced, and no label has to reach a node that is there already.

Leaves alone the nodes, and every pod that asks for no GPU.

What breaks if violated: classes, policy and quotas are there before the first pod with a GPU, since a quota does not
count back what it let in; the two floors have one priority, so that neither ever takes from the other; value and policy
of a PriorityClass can't change, so each value has a name of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.gpu_sharing.plan import SharedPool, SharingPlan
from components.gpu_sharing.settings import NAMESPACE
from components.kubernetes import SKIP_AWAIT
from components.slurm.charts import NAMESPACE as SLURM
from components.slurm.objects import POOL_LABEL
from crusoe.catalog import RESOURCE_NAMES
from crusoe.rules.gpu_quota import FLOOR_PRIORITY

Manifest = dict[str, Any]
"""A whole object: apiVersion, kind, metadata and the rest."""

TRAIN_FLOOR, TRAIN_BORROW, TRAIN_FIRST = "gpu-train-floor", "gpu-train-borrow", "gpu-train-first"
INFER_FLOOR, INFER_BURST = "gpu-infer-floor", "gpu-infer-burst"
SHARED = "gpu-shared"
"""The one class of both sides with Kueue, which decides by quota who gives way."""

CLASSES: Mapping[str, tuple[int, str, str]] = {
    TRAIN_FLOOR: (FLOOR_PRIORITY, "PreemptLowerPriority", "Training's guaranteed nodes."),
    INFER_FLOOR: (FLOOR_PRIORITY, "PreemptLowerPriority", "Inference's guaranteed replicas."),
    TRAIN_FIRST: (20_000, "PreemptLowerPriority", "Training beyond its guarantee, where it comes before inference."),
    INFER_BURST: (10_000, "PreemptLowerPriority", "Inference beyond its guarantee."),
    # Below -10, where the cluster autoscaler takes no notice: a worker that waits for a free node buys none.
    TRAIN_BORROW: (-100, "Never", "Training beyond its guarantee, on what nobody wants."),
    SHARED: (0, "Never", "Both sides of a pool that Kueue shares."),
}
"""Value, preemption policy and meaning of each class. All far below those of Kubernetes' own pods."""

TRAINING_CLASSES = (TRAIN_FLOOR, TRAIN_BORROW, TRAIN_FIRST)
INFERENCE_CLASSES = (INFER_FLOOR, INFER_BURST)

POOL, SHARE, PART = "gpuplatform/pool", "gpuplatform/share", "gpuplatform/part"
"""Labels of pods: the key of their pool, the name of their share, and `home`, `floor`, `burst` or `borrow`."""
HOLDS = "gpuplatform/gpu-share"
"""Label of namespaces that are made for shares, with the value `inference`."""

HOSTNAME = "kubernetes.io/hostname"
POLICY = OTHERS = "gpu-sharing"


def manifests(plan: SharingPlan) -> list[Manifest]:
    """Everything of this module, in the order in which it has to be there."""
    return [
        *namespaces(plan),
        *priority_classes(plan),
        *admission(plan),
        *quotas(plan),
        *limit_ranges(plan),
        *homes(plan),
    ]


def namespaces(plan: SharingPlan) -> list[Manifest]:
    """The namespaces that are made here: of the shares, and of the homes."""
    labels: dict[str, Mapping[str, str]] = {name: {HOLDS: "inference"} for name in plan.namespaces}
    if _homes(plan):
        labels[NAMESPACE] = {}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**each}}}
        for name, each in labels.items()
    ]


def borrow_class(pool: SharedPool) -> str:
    """Class of workers on borrowed nodes."""
    return TRAIN_FIRST if pool.surplus == "training-first" else TRAIN_BORROW


def priority_classes(plan: SharingPlan) -> list[Manifest]:
    """The classes that the pools' engines need: two floors, and what gives way to them."""
    used = {SHARED} if plan.of("kueue") else set[str]()
    if plan.of("priority", "static"):
        used |= {TRAIN_FLOOR, INFER_FLOOR}
    if plan.of("priority"):
        used |= {INFER_BURST, *(borrow_class(pool) for pool in plan.of("priority"))}
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
            "globalDefault": False,
            "description": meaning,
        }
        for name, (value, policy, meaning) in CLASSES.items()
        if name in used
    ]


def quotas(plan: SharingPlan) -> list[Manifest]:
    """Ceilings by namespace and class, and no GPU for any other class.

    Kubernetes counts an extended resource as `requests.<name>` only, from a pod's creation until it is gone. GPUs of
    one vendor have one name in all pools, so a ceiling is the sum over pools.
    """
    training = {
        TRAIN_FLOOR: [(pool.resource, pool.floor_gpus) for pool in plan.of("priority", "static")],
        TRAIN_BORROW: _borrowed(plan, TRAIN_BORROW),
        TRAIN_FIRST: _borrowed(plan, TRAIN_FIRST),
        SHARED: [(pool.resource, pool.floor_gpus + pool.borrowed_gpus) for pool in plan.of("kueue")],
    }
    found = [*_scoped(SLURM, training), _others(SLURM, training, plan.slurm_gpus.items())]
    for namespace in plan.share_namespaces:
        dynamic, kueue = plan.shares_in(namespace, "priority", "static"), plan.shares_in(namespace, "kueue")
        bursting = plan.shares_in(namespace, "priority")
        inference = {
            INFER_FLOOR: [(pool.resource, each.floor_gpus + each.surge_gpus) for pool, each in dynamic],
            INFER_BURST: [(pool.resource, each.burst_gpus) for pool, each in bursting if each.burst],
            SHARED: [(pool.resource, each.floor_gpus + each.burst_gpus) for pool, each in kueue],
        }
        found += [*_scoped(namespace, inference), _others(namespace, inference, ())]
    return found


def _borrowed(plan: SharingPlan, name: str) -> list[tuple[str, int]]:
    return [(pool.resource, pool.borrowed_gpus) for pool in plan.of("priority") if borrow_class(pool) == name]


def _scoped(namespace: str, parts: Mapping[str, Sequence[tuple[str, int]]]) -> list[Manifest]:
    """One quota for each class that somebody has a part in."""
    return [_quota(namespace, name, "In", [name], each) for name, each in parts.items() if each]


def _others(namespace: str, parts: Mapping[str, Sequence[object]], gpus: Iterable[tuple[str, int]]) -> Manifest:
    """The quota of every other pod: no GPU, but for those of the pools that Slurm has to itself.

    A class that nobody has a part in here has no quota of its own, so it is among the others.
    """
    return _quota(namespace, OTHERS, "NotIn", [name for name, each in parts.items() if each], gpus)


def _quota(
    namespace: str, name: str, operator: str, classes: Sequence[str], parts: Iterable[tuple[str, int]]
) -> Manifest:
    hard = dict.fromkeys(RESOURCE_NAMES.values(), 0)
    for resource, gpus in parts:
        hard[resource] += gpus
    scope = {"scopeName": "PriorityClass", "operator": operator, "values": [*classes]}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "hard": {f"requests.{resource}": str(gpus) for resource, gpus in hard.items()},
            # A scope without values is refused: where there are no classes the quota is everybody's.
            **({"scopeSelector": {"matchExpressions": [scope]}} if classes else {}),
        },
    }


def limit_ranges(plan: SharingPlan) -> list[Manifest]:
    """No pod of inference is larger than a node, and one that says nothing of cores and memory asks for a few."""
    return [_limit_range(namespace, plan) for namespace in plan.share_namespaces]


def _limit_range(namespace: str, plan: SharingPlan) -> Manifest:
    largest = dict.fromkeys(RESOURCE_NAMES.values(), 0)
    for pool, _ in plan.shares_in(namespace, "priority", "static", "kueue"):
        largest[pool.resource] = max(largest[pool.resource], pool.gpus)
    # A pod without any limit for a resource is refused where the pod's largest is limited (LimitRanger of 1.36), so
    # containers that say nothing of GPUs get a limit of none.
    none = dict.fromkeys(RESOURCE_NAMES.values(), "0")
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": POLICY, "namespace": namespace},
        "spec": {
            "limits": [
                {"type": "Pod", "max": {resource: str(gpus) for resource, gpus in largest.items()}},
                {
                    "type": "Container",
                    "default": none,
                    "defaultRequest": {**none, "cpu": "100m", "memory": "256Mi"},
                },
            ]
        },
    }


def admission(plan: SharingPlan) -> list[Manifest]:
    """The policy on pods: GPUs only where there is a share, each side's classes only in its own namespaces.

    Namespaces are told by their names, which nobody can change, not by labels.
    """
    shares = plan.share_namespaces
    classed = [*INFERENCE_CLASSES, SHARED]
    with_gpus, partial = _texts([SLURM, *shares, *plan.exempt]), _texts(plan.exempt)
    rules = [
        (
            f"!variables.gpus || request.namespace in {with_gpus}",
            "This namespace has no share of the GPUs. Add one to platform.gpuSharing, or use a namespace that has.",
        ),
        (
            f"!variables.parts || request.namespace in {partial}",
            "Parts of GPUs (MIG, time-slicing, partitions) are not counted by the quotas. Ask for whole GPUs.",
        ),
        (
            f"!variables.claims || !(request.namespace in {_texts([SLURM, *shares])})",
            "Devices by claim are not counted by the quotas. Ask for GPUs by their resource name.",
        ),
        (
            f"!(variables.priority in {_texts(TRAINING_CLASSES)}) || request.namespace == '{SLURM}'",
            f"Training's priority classes are for the namespace {SLURM} only.",
        ),
        (
            f"!(variables.priority in {_texts([INFER_FLOOR])}) || request.namespace in {_texts([*shares, NAMESPACE])}",
            f"{INFER_FLOOR} is for namespaces with a share of inference only.",
        ),
        (
            f"!(variables.priority in {_texts([INFER_BURST])}) || request.namespace in {_texts(shares)}",
            f"{INFER_BURST} is for namespaces with a share of inference only.",
        ),
        (
            f"variables.priority != '{SHARED}' || request.namespace in {_texts([SLURM, *shares])}",
            f"{SHARED} is for namespaces with a share only.",
        ),
        (
            f"!variables.gpus || !(request.namespace in {_texts(shares)}) || variables.priority in {_texts(classed)}",
            f"Pods with GPUs need priorityClassName: {INFER_FLOOR} within the share's floor, {INFER_BURST} beyond it.",
        ),
    ]
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ]
                },
                "variables": [{"name": name, "expression": text} for name, text in _variables().items()],
                "validations": [
                    {"expression": expression, "message": message, "reason": "Forbidden"}
                    for expression, message in rules
                ],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        },
    ]


def _variables() -> dict[str, str]:
    """What the policy's rules ask of a pod, in CEL. GPUs have no request without a limit of the same number."""
    some = "has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r, {})"
    whole = f"r in {_texts(RESOURCE_NAMES.values())} && quantity(c.resources.limits[r]).isGreaterThan(quantity('0'))"
    parts = (
        "r.startsWith('nvidia.com/mig-') || (r.startsWith('nvidia.com/') && r.endsWith('.shared')) || "
        f"(r.startsWith('amd.com/') && r != '{RESOURCE_NAMES['amd']}')"
    )
    return {
        "containers": "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])",
        "gpus": f"variables.containers.exists(c, {some.format(whole)})",
        "parts": f"variables.containers.exists(c, {some.format(parts)})",
        "claims": "has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0",
        "priority": "has(object.spec.priorityClassName) ? object.spec.priorityClassName : ''",
    }


def _texts(values: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def homes(plan: SharingPlan) -> list[Manifest]:
    """The markers of all homes, and what keeps drains from taking two of a share at once."""
    found: list[Manifest] = []
    for pool, name, namespace, count in _homes(plan):
        labels = {POOL: pool.key, SHARE: name, PART: "home"}
        # Where nodes move from training to inference the markers wait until training's workers have drained, which come
        # after them: an `up` that waited for them would never end.
        metadata = {
            "name": f"{pool.key}-{name}",
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": {**SKIP_AWAIT},
        }
        pod = {
            "priorityClassName": INFER_FLOOR,
            "nodeSelector": {POOL_LABEL: pool.node_pool},
            "tolerations": [*pool.tolerations],
            "affinity": {
                "podAntiAffinity": _required(_home_term()),
                # A marker that is made anew goes back to where its share already is.
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 100, "podAffinityTerm": _term({**labels, PART: "floor"}, namespace)}
                    ]
                },
            },
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "home",
                    "image": plan.home_image,
                    "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
                }
            ],
        }
        found += [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": metadata,
                "spec": {
                    "replicas": count,
                    "selector": {"matchLabels": labels},
                    # A marker beside the old ones would take another node from training.
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            },
            budget(f"{pool.key}-{name}", NAMESPACE, labels),
        ]
    return found


def _homes(plan: SharingPlan) -> list[tuple[SharedPool, str, str, int]]:
    """Pool, share, namespace and homes of each share that has any. Kueue lends whole nodes, and needs none."""
    return [
        (pool, each.name, each.namespace, each.homes)
        for pool in plan.of("priority", "static")
        for each in pool.shares
        if each.homes
    ]


def budget(name: str, namespace: str, labels: Mapping[str, str]) -> Manifest:
    """A disruption budget of one pod. It holds for drains and upgrades; preemption only prefers not to break it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {**labels}}},
    }


def off_homes() -> Manifest:
    """Affinity of training's floor: on no home of inference, and one worker a node.

    The list replaces the operator's own, so its term is repeated here.
    """
    workers = {"labelSelector": {"matchLabels": {"app.kubernetes.io/name": "slurmd"}}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": _required(workers, _home_term())}


def at_home(pool: SharedPool, share: str) -> Manifest:
    """Affinity of a share's floor: only on its homes."""
    return {"podAffinity": _required(_term({POOL: pool.key, SHARE: share, PART: "home"}, NAMESPACE))}


def together(pool: SharedPool) -> Manifest:
    """Affinity of burst replicas: beside others, so that whole nodes become free again."""
    selector = {"matchLabels": {POOL: pool.key, PART: "burst"}}
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOSTNAME}
    return {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    }


def _home_term() -> Manifest:
    return _term({PART: "home"}, NAMESPACE)


def _term(labels: Mapping[str, str], namespace: str) -> Manifest:
    return {"labelSelector": {"matchLabels": {**labels}}, "namespaces": [namespace], "topologyKey": HOSTNAME}


def _required(*terms: Manifest) -> Manifest:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}
