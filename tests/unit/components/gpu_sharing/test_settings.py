"""Wrong settings of the sharing, as a whole document: each is refused by its path, with what would be right."""

from __future__ import annotations

import pytest

from components.slurm import settings as slurm_settings
from tests.unit.components.gpu_sharing.support import Json, changed, document, faults

POOL = "gpuSharing.pools.train"
MODEL: Json = {"image": "registry.example.com/server:1", "scaling": {"metric": "requests", "perReplica": 32}}
WINDOW: Json = {"timezone": "Europe/Berlin", "start": "0 20 * * *", "end": "0 7 * * *"}
DEMAND: Json = {"prometheus": "http://prometheus:9090"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("gpuSharing.namespaces", ["inference", "other"]),
        (f"{POOL}.engine", "priority"),
        (f"{POOL}.surplus", "training-first"),
        (f"{POOL}.inference.chat.model", MODEL),
        (f"{POOL}.inference.chat", {"namespace": "team", "ceiling": None}),
        (f"{POOL}.training.demand", {**DEMAND, "windows": [{**WINDOW, "count": 6}]}),
        (f"{POOL}.training.drainBudget", 120),
        ("slurm.partitions", {"wide": {"maxTime": "2-0"}, "own": {"pools": ["train"], "maxTime": "UNLIMITED"}}),
        ("nodePools.train.type", "mi300x-192gb-ib.8x"),
    ],
)
def test_right_settings(path: str, value: object) -> None:
    given = changed(document(), path, value)
    given["gpuSharing"]["existingNamespaces"] = ["team"]
    assert faults(given) == {}


@pytest.mark.parametrize(
    ("path", "value", "place", "words"),
    [
        # Shapes.
        (f"{POOL}.engin", "priority", f"{POOL}.engin", "Write engine"),
        (f"{POOL}.engine", "volcano", f"{POOL}.engine", "not one of the known values"),
        (f"{POOL}.training.floor", -1, f"{POOL}.training.floor", "greater than or equal to 0"),
        (f"{POOL}.training.floor", "6", f"{POOL}.training.floor", "not a whole number"),
        (f"{POOL}.inference.chat.gpusPerReplica", 0, f"{POOL}.inference.chat.gpusPerReplica", "greater than"),
        (f"{POOL}.inference.chat.namespace", "Team", f"{POOL}.inference.chat.namespace", "not lower-case letters"),
        (f"{POOL}.inference.Chat", {"gpusPerReplica": 4, "floor": 0}, f"{POOL}.inference.Chat", "Write 'chat'"),
        ("gpuSharing.pools.ghost", {"training": {"floor": 1}}, "gpuSharing.pools.ghost", "no node pool 'ghost'"),
        # Sums.
        (f"{POOL}.training.floor", 8, POOL, "8 floor nodes + 3 home nodes for chat = 11, but 10 of 12 nodes"),
        # A share in a namespace that does not exist.
        (
            f"{POOL}.inference.chat.namespace",
            "team",
            f"{POOL}.inference.chat.namespace",
            "neither made here nor declared as existing",
        ),
        ("gpuSharing.namespaces", ["kube-system", "inference"], "gpuSharing.namespaces[0]", "namespace of Kubernetes"),
        # Two owners of one number.
        ("nodePools.train.autoscaling", {"min": 12, "max": 14}, "nodePools.train.count", "the autoscaler owns"),
        # Parts of GPUs.
        (
            "nodePools.train.nodeLabels",
            {"nvidia.com/mig.config": "all-1g.10gb"},
            "nodePools.train.nodeLabels.nvidia.com/mig.config",
            "divides GPUs by MIG",
        ),
        (
            "slurm.pools",
            {"train": {"template": {"resourceClaims": [{"name": "gpu"}]}}},
            "slurm.pools.train.template.resourceClaims",
            "not in the quotas",
        ),
        # Slurm's side.
        ("slurm", None, "gpuSharing", "there is none. Add platform.slurm with mode: slinky"),
        ("slurm.mode", "managed", "gpuSharing", "has nodes of its own"),
        ("slurm.pools", {"train": {"include": False}}, "slurm.pools.train.include", "shared with training"),
        ("slurm.pools", {"train": {"scalingMode": "DaemonSet"}}, "slurm.pools.train.scalingMode", "every node"),
        (f"{POOL}.training.lentMaxTime", "UNLIMITED", f"{POOL}.training.lentMaxTime", "need a time limit"),
        (f"{POOL}.training.lentMaxTime", "1d", f"{POOL}.training.lentMaxTime", "Write '1-0'"),
        ("slurm.conf", {"options": {"JobRequeue": 0}}, "slurm.conf.options.JobRequeue", "would be lost"),
        (
            "slurm.partitions",
            {"wide": {"maxTime": "UNLIMITED"}},
            "slurm.partitions.wide.maxTime",
            "need a time limit",
        ),
        # Demand and models.
        (f"{POOL}.training.demand", {**DEMAND, "warmNodes": 7}, f"{POOL}.training.demand.warmNodes", "Write 6"),
        (f"{POOL}.training.demand", {"prometheus": "prom:9090"}, f"{POOL}.training.demand.prometheus", "not an http"),
        (
            f"{POOL}.training.demand",
            {**DEMAND, "windows": [{**WINDOW, "count": 7}]},
            f"{POOL}.training.demand.windows[0].count",
            "7 nodes are above the 6",
        ),
        (
            f"{POOL}.training.demand",
            {**DEMAND, "windows": [{**WINDOW, "start": "20:00", "count": 1}]},
            f"{POOL}.training.demand.windows[0].start",
            "five fields",
        ),
        (
            f"{POOL}.inference.chat.model",
            {"image": "x"},
            f"{POOL}.inference.chat.model.scaling",
            "nothing says when the 3 replicas",
        ),
        (
            f"{POOL}.inference.chat",
            {"ceiling": 5, "model": MODEL},
            f"{POOL}.inference.chat.model.scaling",
            "no replicas between floor and ceiling",
        ),
        (
            f"{POOL}.inference.chat.model",
            {"image": "x", "scaling": {**MODEL["scaling"], "windows": [{**WINDOW, "count": 4}]}},
            f"{POOL}.inference.chat.model.scaling.windows",
            "only KEDA knows times",
        ),
        (
            f"{POOL}.inference.chat.model",
            {**MODEL, "template": {"nodeSelectr": {}}},
            f"{POOL}.inference.chat.model.template.nodeSelectr",
            "Write nodeSelector",
        ),
        ("nodePools.train-borrow", {"type": "c1a.8x", "count": 1}, POOL, "and so is a pool"),
    ],
)
def test_wrong_settings_are_refused_by_path(path: str, value: object, place: str, words: str) -> None:
    found = faults(changed(document(), path, value))
    assert words in found.get(f"platform.{place}", ""), found


def test_the_drain_budget_of_a_pool_counts_for_its_grace() -> None:
    given = document({"drainBudget": 60})
    given["slurm"] = {"timing": {"podGrace": 160}}
    assert "drainBudget 60 + killWait 90 + 30 = 180 s" in faults(given)["platform.slurm.timing.podGrace"]


@pytest.mark.parametrize("engine", ["kueue", "priority"])
def test_the_pools_own_partition_ends_its_jobs_where_it_is_lent(engine: str) -> None:
    given = document({"demand": DEMAND}, {"gpusPerReplica": 8, "floor": 2, "ceiling": 4})
    given["gpuSharing"]["pools"]["train"]["engine"] = engine
    given["slurm"] = {"pools": {"train": {"partition": {"maxTime": "UNLIMITED"}}}}
    assert "need a time limit" in faults(given)["platform.slurm.pools.train.partition.maxTime"]


@pytest.mark.parametrize(("shared", "refused"), [((), True), (("train",), False)])
def test_a_shared_pool_may_be_autoscaled(shared: tuple[str, ...], *, refused: bool) -> None:
    """Slurm's workers have a fixed number there: those of the floor, and those that wait for a node."""
    found = slurm_settings.findings(
        {},
        "platform.slurm",
        pools={"train": {"type": "h100-80gb-sxm-ib.8x", "autoscaling": {"min": 2, "max": 4}}},
        pools_path="platform.nodePools",
        disks={},
        disks_path="platform.storage.disks",
        stack="test",
        infiniband=False,
        shared=shared,
    )
    assert ("platform.slurm.pools.train.scalingMode" in [each.path for each in found]) is refused
