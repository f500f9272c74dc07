"""What is written into a cluster, whole, for a reviewer's eye; and what must hold of it whatever the settings.

Golden files are written anew by `python -m tests.unit.components.gpu_sharing.test_objects`; then read the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.gpu_sharing import inference, kueue, objects, table, workers
from components.gpu_sharing.plan import SharedPool
from components.settings import parse
from components.slurm import objects as slurm_objects
from components.slurm import plan as slurm_plan
from components.slurm.objects import Pods, Worker
from components.slurm.settings import SlurmSettings
from crusoe.rules import slinky
from tests.unit.components.gpu_sharing.support import (
    H100,
    L40S,
    MI300X,
    Document,
    Json,
    changed,
    check,
    document,
    plan_of,
    pools_of,
)
from tools import releases

GOLDEN = Path(__file__).parent / "golden"
POOL = "gpuSharing.pools.train"
PODS = Pods(dict.fromkeys(("slurmd", "alpine"), "registry.example.com/image:1"))
WINDOW: Json = {"timezone": "Europe/Berlin", "start": "0 20 * * *", "end": "0 7 * * *"}
MODEL: Json = {
    "image": "registry.example.com/server:1",
    "args": ["--model", "/models/chat"],
    "cpus": 16,
    "memory": "128Gi",
    "scaling": {
        "metric": "sum(requests_running)",
        "perReplica": 32,
        "prometheus": "http://prometheus:9090",
        "windows": [{**WINDOW, "count": 2}],
    },
}


def priority() -> Json:
    """Every part of the default engine: a floor that is lent by demand, a model, a taint, a pool of Slurm's own."""
    given = document(
        {"demand": {"prometheus": "http://prometheus:9090", "windows": [{**WINDOW, "count": 6}]}, "drainBudget": 60},
        {"model": MODEL, "surge": 1},
        nodeTaints=[{"key": "example.com/dedicated", "value": "gpus", "effect": "NoSchedule"}],
    )
    given["nodePools"]["own"] = {"type": L40S, "count": 3}
    return given


def mixed() -> Json:
    """One pool for each other way: AMD with engine static, whole nodes with Kueue, training first."""
    return {
        "nodePools": {
            "amd": {"type": MI300X, "count": 4},
            "lent": {"type": H100, "count": 6, "reserve": 1},
            "first": {"type": L40S, "count": 5},
        },
        "slurm": {},
        "gpuSharing": {
            "namespaces": ["inference", "batch"],
            "existingNamespaces": ["team"],
            "pools": {
                "amd": {
                    "engine": "static",
                    "training": {"floor": 2},
                    "inference": {"big": {"gpusPerReplica": 8, "floor": 2}},
                },
                "lent": {
                    "engine": "kueue",
                    "training": {"floor": 2},
                    "inference": {"whole": {"gpusPerReplica": 8, "floor": 2, "ceiling": 4, "model": MODEL}},
                },
                "first": {
                    "surplus": "training-first",
                    "training": {"floor": 1},
                    "inference": {
                        "small": {
                            "gpusPerReplica": 5,
                            "floor": 1,
                            "ceiling": 4,
                            "namespace": "team",
                            "model": {"image": "x", "scaling": {"metric": "requests", "perReplica": 4}},
                        }
                    },
                },
            },
        },
    }


def node_sets(given: Json) -> list[Json]:
    """The specs of all NodeSets of the shared pools, as they would be written."""
    return [
        {"name": each.key, "spec": slurm_objects.node_set(PODS, each)}
        for key in given["gpuSharing"]["pools"]
        for each in shared_workers(given, key)
    ]


def shared_workers(given: Json, key: str) -> tuple[Worker, ...]:
    settings = parse(Document, given, "platform", [check])
    slurm, pools = settings.slurm or SlurmSettings(), pools_of(settings)
    conf = slurm_plan.conf_plan(slurm, pools, {})
    own = slurm_plan.worker(slurm, key, pools[key], conf, {}).worker
    (shared,) = [pool for pool in plan_of(given).pools if pool.key == key]
    return workers.node_sets(own, shared, slurm_plan.slurm_pool(slurm, key, pools[key], {}), conf)


@cache
def written() -> dict[str, str]:
    """Each golden file and what is to be in it."""
    documents = {"priority": priority(), "mixed": mixed()}
    files: dict[str, str] = {}
    for name, given in documents.items():
        plan = plan_of(given)
        files[f"{name}.txt"] = "\n".join(table.lines(plan)) + "\n"
        files[f"{name}-objects.yaml"] = _text(objects.manifests(plan))
        files[f"{name}-nodesets.yaml"] = _text(node_sets(given))
        files[f"{name}-models.yaml"] = _text(inference.manifests(plan))
    files["kueue.yaml"] = _text([kueue.values(plan_of(mixed())), *kueue.manifests(plan_of(mixed()))])
    return files


def _text(manifests: list[Json]) -> str:
    class Plain(yaml.SafeDumper):
        """Without anchors: each object stands for itself."""

        def ignore_aliases(self, data: Any) -> bool:
            del data
            return True

    return yaml.dump_all(manifests, Dumper=Plain, sort_keys=False, width=110)


PARTS = ("objects.yaml", "nodesets.yaml", "models.yaml")
FILES = [
    "priority.txt",
    "mixed.txt",
    "kueue.yaml",
    *(f"{name}-{part}" for name in ("priority", "mixed") for part in PARTS),
]


@pytest.mark.parametrize("file", FILES)
def test_it_is_as_it_was_read_last(file: str) -> None:
    assert written()[file] == (GOLDEN / file).read_text(encoding="utf-8")


def named(manifests: list[Json], kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def quotas(given: Json) -> dict[tuple[str, str], Mapping[str, str]]:
    made = objects.quotas(plan_of(given))
    return {(each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]["hard"] for each in made}


def test_classes_of_the_default_engine() -> None:
    made = named(objects.manifests(plan_of(document())), "PriorityClass")
    values = {name: each["value"] for name, each in made.items()}
    assert list(values) == ["gpu-train-floor", "gpu-infer-floor", "gpu-infer-burst", "gpu-train-borrow"]
    assert values["gpu-train-floor"] == values["gpu-infer-floor"]
    assert values["gpu-infer-floor"] > values["gpu-infer-burst"] > 0
    # The cluster autoscaler buys nodes for pods of -10 and above.
    assert values["gpu-train-borrow"] < -10
    assert made["gpu-train-borrow"]["preemptionPolicy"] == "Never"
    assert not any(each["globalDefault"] for each in made.values())


def test_training_first() -> None:
    made = named(objects.manifests(plan_of(changed(document(), f"{POOL}.surplus", "training-first"))), "PriorityClass")
    floor, first, burst = (made[f"gpu-{name}"]["value"] for name in ("train-floor", "train-first", "infer-burst"))
    assert floor > first > burst
    assert "gpu-train-borrow" not in made


def test_a_static_pool_is_the_default_without_what_borrows() -> None:
    given = changed(document(), "gpuSharing.pools.train.engine", "static")
    given["gpuSharing"]["pools"]["train"]["inference"]["chat"].pop("ceiling")
    assert list(named(objects.manifests(plan_of(given)), "PriorityClass")) == ["gpu-train-floor", "gpu-infer-floor"]
    assert [worker.key for worker in shared_workers(given, "train")] == ["train"]


def test_quotas_have_ceilings_for_each_class_and_nothing_for_others() -> None:
    given = document(None, {"surge": 1}, count=13)
    assert quotas(given) == {
        ("slurm", "gpu-train-floor"): {"requests.nvidia.com/gpu": "48", "requests.amd.com/gpu": "0"},
        ("slurm", "gpu-train-borrow"): {"requests.nvidia.com/gpu": "40", "requests.amd.com/gpu": "0"},
        ("slurm", "gpu-sharing"): {"requests.nvidia.com/gpu": "0", "requests.amd.com/gpu": "0"},
        ("inference", "gpu-infer-floor"): {"requests.nvidia.com/gpu": "24", "requests.amd.com/gpu": "0"},
        ("inference", "gpu-infer-burst"): {"requests.nvidia.com/gpu": "12", "requests.amd.com/gpu": "0"},
        ("inference", "gpu-sharing"): {"requests.nvidia.com/gpu": "0", "requests.amd.com/gpu": "0"},
    }


def test_pools_that_slurm_has_to_itself_keep_their_gpus() -> None:
    assert quotas(priority())["slurm", "gpu-sharing"]["requests.nvidia.com/gpu"] == "30"


def test_a_class_without_a_part_in_a_namespace_is_among_the_others_there() -> None:
    made = objects.quotas(plan_of(mixed()))
    others = {
        each["metadata"]["namespace"]: each["spec"].get("scopeSelector")
        for each in made
        if each["metadata"]["name"] == "gpu-sharing"
    }
    assert others["batch"] is None, "a namespace without a share has no GPU for anybody"
    assert others["inference"]["matchExpressions"][0]["values"] == ["gpu-infer-floor", "gpu-shared"]
    assert others["team"]["matchExpressions"][0]["values"] == ["gpu-infer-floor", "gpu-infer-burst"]


@pytest.mark.parametrize(("kind", "resource", "other"), [(H100, "nvidia", "amd"), (MI300X, "amd", "nvidia")])
def test_gpus_of_either_vendor_are_counted_under_their_own_name(kind: str, resource: str, other: str) -> None:
    given = document(None, {"model": MODEL}, type=kind)
    plan = plan_of(given)
    hard = quotas(given)["inference", "gpu-infer-floor"]
    assert hard == {f"requests.{resource}.com/gpu": "20", f"requests.{other}.com/gpu": "0"}
    (limits,) = named(objects.limit_ranges(plan), "LimitRange").values()
    assert limits["spec"]["limits"][0]["max"] == {f"{resource}.com/gpu": "8", f"{other}.com/gpu": "0"}
    served = named(inference.manifests(plan), "Deployment")["chat"]["spec"]["template"]["spec"]
    assert served["containers"][0]["resources"]["limits"] == {f"{resource}.com/gpu": 4}
    assert {"key": f"{resource}.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in served["tolerations"]
    home = named(objects.homes(plan), "Deployment")["train-chat"]["spec"]["template"]["spec"]
    assert home["tolerations"] == served["tolerations"]
    policy = named(objects.admission(plan), "ValidatingAdmissionPolicy")["gpu-sharing"]
    assert f"'{resource}.com/gpu'" in str(policy["spec"]["variables"])
    floor, _ = shared_workers(given, "train")
    assert floor.resource == f"{resource}.com/gpu"


def test_policy_and_quotas_come_before_anything_that_runs() -> None:
    kinds = [each["kind"] for each in objects.manifests(plan_of(priority()))]
    first = kinds.index("Deployment")
    for kind in ("Namespace", "PriorityClass", "ValidatingAdmissionPolicyBinding", "ResourceQuota", "LimitRange"):
        assert len(kinds) - 1 - kinds[::-1].index(kind) < first, kind


def test_pods_without_gpus_pass_the_limit_of_the_largest_pod() -> None:
    """Kubernetes refuses a pod that has no limit at all for a resource whose pods are limited."""
    (limits,) = objects.limit_ranges(plan_of(document()))
    largest, container = limits["spec"]["limits"]
    assert set(largest["max"]) <= set(container["default"])
    assert "min" not in container


def test_floors_keep_off_each_other_and_borrowers_go_anywhere() -> None:
    given = document(None, {"model": MODEL})
    plan = plan_of(given)
    floor, borrow = (slurm_objects.node_set(PODS, each) for each in shared_workers(given, "train"))
    apart = floor["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    home = named(objects.homes(plan), "Deployment")["train-chat"]
    mark = home["spec"]["template"]["metadata"]["labels"]
    assert [term for term in apart if term["labelSelector"]["matchLabels"].items() <= mark.items()]
    assert home["metadata"]["namespace"] == apart[-1]["namespaces"][0]
    assert "affinity" not in borrow["template"]["spec"]
    served = named(inference.manifests(plan), "Deployment")
    here = served["chat"]["spec"]["template"]["spec"]["affinity"]["podAffinity"]
    (term,) = here["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == mark
    assert "requiredDuring" not in str(served["chat-burst"]["spec"]["template"]["spec"]["affinity"])
    assert home["spec"]["replicas"] == 3


def test_borrowing_workers_are_never_updated_by_themselves_and_end_in_time() -> None:
    floor, borrow = shared_workers(priority(), "train")
    assert (floor.key, floor.update, floor.replicas) == ("train", "RollingUpdate", None)
    assert (borrow.key, borrow.update, borrow.replicas) == ("train-borrow", "OnDelete", 4)
    assert "MaxTime=1-0" in str(borrow.partition)
    assert "Weight=1001" in borrow.conf
    assert floor.grace_seconds == borrow.grace_seconds == 60 + 90 + 30
    assert "state=drain" in borrow.pre_stop
    assert "state=down" not in borrow.pre_stop


@pytest.mark.parametrize("given", [priority(), mixed()])
def test_node_sets_are_as_slinky_takes_them(given: Json) -> None:
    for each in node_sets(given):
        assert list(slinky.spec("NodeSet", "spec", each["spec"])) == []


def test_two_deployments_share_a_service_but_not_each_others_pods() -> None:
    made = inference.manifests(plan_of(document(None, {"model": MODEL})))
    selectors = [each["spec"]["selector"]["matchLabels"] for each in named(made, "Deployment").values()]
    service = named(made, "Service")["chat"]["spec"]["selector"]
    assert len(selectors) == 2
    assert selectors[0] != selectors[1]
    assert all(service.items() <= selector.items() for selector in selectors)


@pytest.mark.parametrize(("surge", "rollout"), [(0, (0, 1)), (1, (1, 0))])
def test_a_rollout_needs_no_gpu_that_the_share_has_not(surge: int, rollout: tuple[int, int]) -> None:
    made = inference.manifests(plan_of(document(None, {"model": MODEL, "surge": surge}, count=13)))
    for name, expected in (("chat", rollout), ("chat-burst", (0, 1))):
        each = named(made, "Deployment")[name]
        rolling = each["spec"]["strategy"]["rollingUpdate"]
        assert (rolling["maxSurge"], rolling["maxUnavailable"]) == expected
        assert each["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_what_is_scaled_has_no_number_of_its_own() -> None:
    made = inference.manifests(plan_of(priority()))
    targets = [
        each["spec"]["scaleTargetRef"]["name"]
        for each in made
        if each["kind"] in ("ScaledObject", "HorizontalPodAutoscaler")
    ]
    assert targets == ["chat-burst", "train"]
    assert "replicas" not in named(made, "Deployment")["chat-burst"]["spec"]
    floor, _ = shared_workers(priority(), "train")
    assert floor.replicas is None


def test_the_burst_counts_only_what_the_floor_can_not_carry() -> None:
    scaled = named(inference.manifests(plan_of(priority())), "ScaledObject")["chat-burst"]["spec"]
    assert scaled["triggers"][0]["metadata"]["query"] == "clamp_min((sum(requests_running)) - 160, 0)"
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (0, 3)


def test_the_cohort_has_the_whole_pool_and_no_more() -> None:
    (pool,) = plan_of(mixed()).of("kueue")
    made = kueue.manifests(plan_of(mixed()))
    total = sum(
        int(resource["nominalQuota"])
        for each in made
        if each["kind"] in ("Cohort", "ClusterQueue")
        for group in each["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    )
    assert total == (pool.least - pool.reserve) * pool.gpus == 40


def test_kueue_gives_what_it_admits_the_tolerations_of_the_pool() -> None:
    given = changed(mixed(), "nodePools.lent.nodeTaints", [{"key": "a.b/c", "value": "d", "effect": "NoSchedule"}])
    flavor = named(kueue.manifests(plan_of(given)), "ResourceFlavor")["lent"]["spec"]
    assert {"key": "a.b/c", "operator": "Equal", "value": "d", "effect": "NoSchedule"} in flavor["tolerations"]
    assert flavor["nodeLabels"] == {"crusoe.ai/nodepool.name": "test-lent"}


def test_kueue_looks_at_namespaces_with_a_share_only() -> None:
    configuration = kueue.configuration(plan_of(mixed()))
    (term,) = configuration["managedJobsNamespaceSelector"]["matchExpressions"]
    assert term["values"] == ["slurm", "inference", "batch", "team"]
    assert "fairSharing" not in configuration


def test_the_version_is_the_one_that_is_tested() -> None:
    (built,) = releases.needed_for("kueue", releases.load())
    assert built.version == kueue.VERSION


def test_kueue_counts_nothing_but_gpus() -> None:
    """A pod that asks for anything its queue does not cover is never admitted, and workers ask for adapters too."""
    excluded = kueue.configuration(plan_of(mixed()))["resources"]["excludeResourcePrefixes"]
    (worker,) = [each for each in node_sets(mixed()) if each["name"] == "lent"]
    asked = worker["spec"]["slurmd"]["resources"]["limits"]
    assert "nvidia.com/hostdev" in asked
    assert [name for name in asked if not name.startswith(tuple(excluded))] == ["nvidia.com/gpu"]


def test_both_managers_elect_one_and_keep_off_gpu_nodes() -> None:
    given = changed(mixed(), "nodePools.cpu", {"type": "c1a.8x", "count": 2})
    plan = plan_of(given)
    assert kueue.configuration(plan)["leaderElection"] == {"leaderElect": True}
    manager = kueue.values(plan)["controllerManager"]
    assert manager["nodeSelector"] == {"crusoe.ai/nodepool.name": "test-cpu"}
    assert (manager["replicas"], manager["podDisruptionBudget"]["minAvailable"]) == (2, 1)
    leaving = changed(given, "nodePools.more", {"type": "c1a.8x", "count": 2})
    leaving["nodePools"]["cpu"]["retire"] = True
    moved = kueue.values(plan_of(leaving))["controllerManager"]
    assert moved["nodeSelector"] == {"crusoe.ai/nodepool.name": "test-more"}
    tainted = changed(given, "nodePools.cpu.nodeTaints", [{"key": "a.b/c", "value": "d", "effect": "NoSchedule"}])
    assert kueue.values(plan_of(tainted))["controllerManager"]["nodeSelector"] == {}


def test_kueue_takes_a_burst_before_the_floor_of_its_queue() -> None:
    plan = plan_of(mixed())
    served = named(inference.manifests(plan), "Deployment")
    ranks = named(kueue.manifests(plan), "WorkloadPriorityClass")
    assert ranks[served["whole-burst"]["metadata"]["labels"][kueue.RANK_LABEL]]["value"] < 0
    assert kueue.RANK_LABEL not in served["whole"]["metadata"]["labels"]


def test_the_queue_of_a_workload_is_there() -> None:
    plan = plan_of(mixed())
    queues = named(kueue.manifests(plan), "LocalQueue")
    asked = {
        each["metadata"]["labels"][kueue.QUEUE_LABEL]
        for each in inference.manifests(plan)
        if kueue.QUEUE_LABEL in each["metadata"].get("labels", {})
    }
    asked |= {worker.labels[kueue.QUEUE_LABEL] for worker in shared_workers(mixed(), "lent")}
    assert asked == set(queues) == {"training-lent", "inference-lent-whole"}


def test_a_note_for_what_may_surprise() -> None:
    text = written()["priority.txt"]
    assert "One burst replica of chat costs training a node of 8 GPUs." in text
    given = document({"floor": 0}, {"ceiling": 20}, count=None, autoscaling={"min": 12, "max": 13})
    lines = "\n".join(table.lines(plan_of(given)))
    assert "Slurm refuses jobs for these GPUs" in lines
    assert "Only 12 of 13 nodes count for the floors" in lines


def pool_of(given: Json) -> SharedPool:
    (pool,) = plan_of(given).pools
    return pool


def test_what_is_left_open_is_derived() -> None:
    given = document()
    assert pool_of(given).ceiling == 10
    assert pool_of(changed(given, f"{POOL}.training.ceiling", 7)).ceiling == 7
    assert pool_of(given).drain_budget == 30
    domains = document({"floor": 18}, {"gpusPerReplica": 4, "floor": 18, "ceiling": None}, type="gb200-186gb-nvl.4x")
    domains["nodePools"]["train"] |= {"count": 56, "reserve": 2}
    assert (pool_of(domains).domain, pool_of(domains).ceiling) == (18, 54)


if __name__ == "__main__":
    for name, text in written().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
