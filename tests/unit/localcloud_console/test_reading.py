"""What is read of Nodes, pods and Slurm's answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localcloud.console import reading
from localcloud.console.sights import JobSight, NodeSight, PodSight

Json = dict[str, Any]


def node(annotations: Json | None = None, spec: Json | None = None, **conditions: tuple[str, str]) -> Json:
    told = {"Ready": ("True", "KubeletReady"), **conditions}
    return {
        "metadata": {"name": "np-1-0", "annotations": annotations or {}},
        "spec": spec or {},
        "status": {"conditions": [{"type": k, "status": s, "reason": r} for k, (s, r) in told.items()]},
    }


def test_a_node_that_is_well() -> None:
    assert reading.node(node()) == NodeSight("np-1-0")


@pytest.mark.parametrize(
    ("item", "changed"),
    [
        (node(spec={"unschedulable": True}), {"cordoned": True}),
        (node(Ready=("Unknown", "NodeStatusUnknown")), {"ready": False}),
        (node({"local.crusoe.ai/power": "off"}), {"power": False}),
        (node({"local.crusoe.ai/gpu-faults": "[[79, 3], [48, 1]]"}), {"lost": frozenset({3})}),
        (node({"local.crusoe.ai/gpu-faults": "nonsense"}), {}),
        (node(GPUXIDUnhealthy=("True", "XID_79")), {"unhealthy": "XID_79"}),
        (node(GPUXIDUnhealthy=("False", "NoXID")), {}),
        (node({"crusoe.ai/remediation": "XID_79-1"}), {"mark": "XID_79-1"}),
        (node({"topology.slinky.slurm.net/spec": "fabric:leaf-1"}), {"place": "fabric:leaf-1"}),
    ],
)
def test_what_a_node_shows(item: Json, changed: Json) -> None:
    assert reading.node(item) == replace(NodeSight("np-1-0"), **changed)


def pod(labels: Json | None = None, *gpus: str, phase: str = "Running", node_name: str = "np-1-0") -> Json:
    containers = [{"resources": {"limits": {"nvidia.com/gpu": each}}} for each in gpus]
    return {
        "metadata": {"name": "p", "namespace": "n", "labels": labels or {}},
        "spec": {"nodeName": node_name, "containers": [*containers, {"name": "beside"}], "hostname": "train-0"},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_a_pods_gpus_are_those_of_all_its_containers() -> None:
    assert reading.pods([pod(None, "4", "2")]) == (PodSight("n", "p", "np-1-0", 6),)


def test_a_worker_is_known_by_its_name_in_slurm_and_who_lent_it() -> None:
    labels = {"app.kubernetes.io/name": "slurmd", "gpuplatform/part": "borrow", "gpuplatform/lent": "true"}
    plain = reading.pods([pod(labels, "8")])[0]
    assert (plain.worker, plain.part, plain.lent) == ("train-0", "borrow", True)
    told = reading.pods([pod({**labels, "nodeset.slinky.slurm.net/pod-hostname": "train-7"}, "8")])[0]
    assert told.worker == "train-7"


@pytest.mark.parametrize("gone", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"node_name": ""}])
def test_pods_that_hold_nothing_are_left_out(gone: Json) -> None:
    assert reading.pods([pod(None, "8", **gone)]) == ()


def test_a_job_that_runs() -> None:
    found = reading.job(
        {
            "job_id": 41,
            "name": "pretrain",
            "user_name": "ada",
            "job_state": ["RUNNING"],
            "state_reason": "None",
            "partition": "train",
            "nodes": "train-[0-1]",
            "tres_alloc_str": "cpu=16,mem=64G,node=2,billing=16,gres/gpu=16,gres/gpu:h100=16",
            "restart_cnt": 1,
            "start_time": {"set": True, "infinite": False, "number": 1700000000},
        }
    )
    nodes = ("train-0", "train-1")
    assert found == JobSight("41", "pretrain", "ada", "RUNNING", "train", "", nodes, 16, 1, 1700000000.0)


@pytest.mark.parametrize(
    ("told", "gpus"),
    [
        ({}, 0),
        ({"gres_detail": ["gpu:h100:8(IDX:0-7)", "gpu:h100:4(IDX:0-3)"], "tres_per_job": "gres/gpu:99"}, 12),
        ({"gres_detail": ["gpu:2(IDX:0,3)"]}, 2),
        ({"tres_per_job": "gres/gpu:6"}, 6),
        ({"tres_per_job": "gres/gpu:h100:6"}, 6),
        ({"tres_per_node": "gres/gpu:8", "node_count": {"set": False, "infinite": False, "number": 2}}, 16),
        ({"tres_per_task": "gres/gpu:1", "tasks": {"set": True, "number": 3}}, 3),
        ({"tres_req_str": "cpu=2,mem=4G,node=1,billing=2"}, 0),
        ({"tres_alloc_str": "cpu=2,gres/gpu=5,gres/gpu:h100=5"}, 5),
    ],
)
def test_a_jobs_gpus_are_found_wherever_slurm_tells_them(told: Json, gpus: int) -> None:
    assert reading.job({"job_id": 1, "job_state": ["RUNNING"], **told}).gpus == gpus


def test_somebody_without_a_name_has_a_number() -> None:
    assert reading.job({"job_id": 1, "job_state": ["RUNNING"], "user_name": "", "user_id": 10001}).user == "uid 10001"


def test_a_job_that_waits_says_why_and_holds_nothing() -> None:
    start = {"set": True, "infinite": False, "number": 1700000000}
    found = reading.job({"job_id": 5, "job_state": ["PENDING"], "state_reason": "Resources", "start_time": start})
    assert (found.waiting, found.reason, found.nodes, found.since) == (True, "Resources", (), 0.0)


@pytest.mark.parametrize("absent", [None, {"set": False, "number": 7}, {"set": True, "infinite": True, "number": 7}])
def test_a_number_that_is_not_set_is_none(absent: object) -> None:
    assert reading.job({"job_id": 5, "job_state": ["RUNNING"], "start_time": absent}).since == 0.0


@pytest.mark.parametrize(
    ("names", "written_out"),
    [
        ("", ()),
        ("a-0", ("a-0",)),
        ("a-[0-1,07],b", ("a-0", "a-1", "a-07", "b")),
        ("a-[08-10]", ("a-08", "a-09", "a-10")),
        ("a[1],b-[2-3]", ("a1", "b-2", "b-3")),
    ],
)
def test_lists_of_nodes_are_written_out(names: str, written_out: tuple[str, ...]) -> None:
    assert reading.expanded(names) == written_out
