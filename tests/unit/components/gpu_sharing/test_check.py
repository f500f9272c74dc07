"""What is promised against what is there, after the fact."""

from __future__ import annotations

from components.gpu_sharing import check
from tests.unit.components.gpu_sharing.support import Json, document, plan_of

LABEL = "crusoe.ai/nodepool.name"


def node(gpus: object = "8", pool: str = "test-train", ready: str = "True", **spec: object) -> Json:
    return {
        "metadata": {"labels": {LABEL: pool}},
        "spec": spec,
        "status": {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def told(nodes: list[Json]) -> list[str]:
    return list(check.short(check.expected(plan_of(document())), nodes, LABEL))


def test_enough() -> None:
    assert told([node() for _ in range(9)]) == []


def test_a_node_that_is_not_ready_cordoned_short_or_elsewhere_does_not_count() -> None:
    wrong = [node(ready="Unknown"), node(unschedulable=True), node("7"), node(pool="other"), node(None), {}]
    assert told([*(node() for _ in range(8)), *wrong]) == [
        "train: 6 floor nodes + 3 home nodes = 9 are promised, 72 GPUs, but 8 ready nodes have all their 8 GPUs "
        "(71 GPUs in all)."
    ]


def test_a_quota_below_what_runs() -> None:
    status = {"hard": {"requests.nvidia.com/gpu": "16"}, "used": {"requests.nvidia.com/gpu": "24"}}
    quota: Json = {"metadata": {"namespace": "slurm", "name": "gpu-train-borrow"}, "status": status}
    assert list(check.over([quota, {"metadata": {}, "status": {}}])) == [
        "slurm/gpu-train-borrow: 24 nvidia.com/gpu run where 16 may, over by 8."
    ]
