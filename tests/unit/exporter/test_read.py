"""From the APIs' answers to plain values; answers as the APIs give them, with parts left out."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from actor.state import SlurmNode
from exporter import read
from exporter.settings import Settings, load
from exporter.sources import Asked, CloudPool, Operation, Quota
from tests.unit.exporter.world import SETTINGS


def test_an_operation_of_autoclusters() -> None:
    found = read.operation(
        {
            "operation_id": "op-1",
            "state": "SUCCEEDED",
            "started_at": "2026-11-30T10:00:00Z",
            "completed_at": "2026-11-30T10:05:00Z",
            "metadata": {"vm_id": "vm-1", "issue_name": "XID_79", "operation_type": "replace_node"},
        }
    )
    assert found == Operation("op-1", "SUCCEEDED", "vm-1", "XID_79", "replace_node", 1796032800, 1796033100)


@pytest.mark.parametrize("item", [{}, {"metadata": None, "completed_at": ""}, {"started_at": "soon"}])
def test_an_operation_of_which_little_is_told(item: dict[str, Any]) -> None:
    assert read.operation(item) == Operation("none", "")


def test_pools_quotas_and_capacity() -> None:
    vms = [{"state": "STATE_RUNNING"}, {"state": "RUNNING"}, {"state": "STATE_CREATING"}, {}]
    assert read.cloud_pool({"name": "a", "type": "t", "count": 4}, vms) == CloudPool("a", 4, 2)
    assert read.quota({"name": "q", "used": 1, "max": 2, "available": 1}) == Quota("q", 1, 2)
    rows = [{"location": "x", "type": "t", "quantity": 3}, {"location": "y", "type": "u", "quantity": 1}]
    assert read.free(rows, "x") == {"t": 3}


def node(**parts: Any) -> dict[str, Any]:
    labels = {"crusoe.ai/nodepool.name": "test-train", "crusoe.ai/instance.id": "vm-1", "crusoe.ai/pod.id": "pod-a"}
    return {"metadata": {"name": "host-1", "labels": labels, **parts.pop("metadata", {})}, **parts}


def condition(kind: str, **changes: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z", **changes}


@pytest.mark.parametrize(
    ("item", "issue"),
    [
        (node(), "none"),
        (node(status={"conditions": [condition("MemoryPressure", reason="PRESSURE")]}), "none"),
        (node(status={"conditions": [condition("GPUXIDUnhealthy", reason="XID_79")]}), "XID_79"),
        (node(status={"conditions": [condition("GPUXIDUnhealthy", reason="XID_79", status="False")]}), "none"),
        # What people write is no label.
        (node(status={"conditions": [condition("Odd", reason="see ticket 12")]}), "none"),
        (node(metadata={"annotations": {"crusoe.ai/remediation": "XID_48-1a2b"}}), "XID_48"),
        (
            node(
                metadata={"annotations": {"crusoe.ai/remediation": "op-1"}},
                status={"conditions": [condition("GPUXIDUnhealthy", reason="XID_79")]},
            ),
            "XID_79",
        ),
    ],
)
def test_what_is_wrong_with_a_node_in_autoclusters_words(item: dict[str, Any], issue: str) -> None:
    assert read.machine(item, SETTINGS, {}).issue == issue


@pytest.mark.parametrize(
    ("given", "gpus"), [({"nvidia.com/gpu": "7"}, 7), ({"amd.com/gpu": "8"}, 0), ({}, 0), ({"nvidia.com/gpu": "x"}, 0)]
)
def test_the_gpus_of_a_node_are_its_vendor_s(given: dict[str, str], gpus: int) -> None:
    found = read.machine(node(status={"allocatable": given}), SETTINGS, {"host-1": "train-0"})
    assert (found.gpus, found.slurm_name, found.leaf, found.ready) == (gpus, "train-0", "pod-a", False)


def test_amd_s_gpus_count_where_the_pool_is_amd_s() -> None:
    amd = load('{"pools": {"mi": {"name": "test-train", "vm_type": "t", "gpus": 8, "resource": "amd.com/gpu"}}}')
    assert read.machine(node(status={"allocatable": {"amd.com/gpu": "8"}}), amd, {}).gpus == 8


def pod(space: str, gpus: int, *, node: str = "", phase: str = "Running") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"nodeName": node, "containers": [{"resources": {"limits": limits}}, {}]}
    return {"metadata": {"name": "p", "namespace": space}, "spec": spec, "status": {"phase": phase}}


def test_who_holds_gpus_and_who_waits_for_some() -> None:
    pods = [
        pod("chat", 4, node="a"),
        pod("chat", 4, phase="Pending"),
        pod("chat", 2, node="a", phase="Succeeded"),
        pod("chat", 0, node="a"),
        pod("other", 1, node="b"),
    ]
    assert read.asked(pods, ["nvidia.com/gpu"]) == {"chat": Asked(4, 4), "other": Asked(1)}


def test_workers_on_borrowed_nodes() -> None:
    def node_set(ready: int, lent: str) -> dict[str, Any]:
        spec = {"template": {"spec": {"nodeSelector": {"crusoe.ai/nodepool.name": "test-train"}}}}
        metadata = {"name": "n", "labels": {"gpuplatform/lent": lent}}
        return {"metadata": metadata, "spec": spec, "status": {"readyReplicas": ready}}

    found = read.lent([node_set(1, "true"), node_set(2, "true"), node_set(4, ""), {"metadata": {}}], SETTINGS)
    assert found == {"train": 3}


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [("gpu:h100:8(S:0-1)", 8), ("gpu:8", 8), ("nic:2,gpu:a:4,gpu:b:2", 6), ("", 0), ("nic:2", 0), ("gpu", 0)],
)
def test_gpus_of_a_node_of_slurm(gres: str, gpus: int) -> None:
    assert read.slurm_gpus(SlurmNode("train-0", gres=gres)) == gpus


def test_a_node_that_came_with_fewer_gpus_counts_those_that_were_found() -> None:
    reason = "gres/gpu count reported lower than configured (7 < 8)"
    assert read.slurm_gpus(SlurmNode("train-0", gres="gpu:h100:8", reason=reason)) == 7


def test_when_a_token_ends() -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": 1_800_000_000, "sun": "slurm"}).encode()).decode().rstrip("=")
    assert read.token_expires(f"h.{payload}.s") == 1_800_000_000
    for odd in ("", "a.b", "a.!!.c", f"h.{base64.urlsafe_b64encode(b'[]').decode()}.s"):
        assert read.token_expires(odd) == 0


def test_settings() -> None:
    text = '{"poll_seconds": 5, "shares": [{"share": "a", "pool": "p", "side": "inference", "floor": 1}]}'
    assert load(text).shares[0].namespace == ""
    assert load("{}") == Settings()
    for wrong, said in (("[]", "object"), ('{"pollSeconds": 1}', "pollSeconds"), ('{"pools": {"a": {}}}', "name")):
        with pytest.raises(ValueError, match=said):
            load(wrong)
