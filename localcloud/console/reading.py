"""Objects of Kubernetes and Slurm in, the few facts that the console shows out: pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from localcloud.autoclusters.nodes import CONDITION, REMEDIATION
from localcloud.console.sights import JobSight, NodeSight, PodSight, SlurmNodeSight
from localcloud.in_cluster.objects import annotation
from localcloud.kubernetes.gpu_faults import GPU_FAULTS, faults_of, lost
from localcloud.slinky.pods import PREFIX
from localcloud.slinky.rest import SlurmNode
from localcloud.slinky.values import Object, at, items, words
from localcloud.slinky.worker import TOPOLOGY
from localcloud.slurm.kubelet import POWER

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_PART, _SHARE, _LENT = "gpuplatform/part", "gpuplatform/share", "gpuplatform/lent"
_WORKER = f"{PREFIX}/pod-hostname"
# `gres/gpu=8`, `gres/gpu:h100=8`, `gres/gpu:8`, `gpu:h100:4(IDX:0-3)`; the one without a type has the sum of all.
_GPUS = re.compile(r"\bgpu(?::[^:=,()]+)?[:=](\d+)")


def node(item: Object) -> NodeSight:
    """A Node."""
    conditions = {each["type"]: each for each in items(item, "status", "conditions")}
    unhealthy = conditions.get(CONDITION, {})
    return NodeSight(
        name=item["metadata"]["name"],
        ready=at(conditions.get("Ready"), "status") == "True",
        cordoned=bool(at(item, "spec", "unschedulable")),
        power=annotation(item, POWER) != "off",
        lost=lost(faults_of(annotation(item, GPU_FAULTS))),
        unhealthy=str(unhealthy.get("reason", "")) if unhealthy.get("status") == "True" else "",
        mark=annotation(item, REMEDIATION) or "",
        place=annotation(item, TOPOLOGY) or "",
    )


def pods(found: Iterable[Object]) -> tuple[PodSight, ...]:
    """The pods that are on a node and have not ended."""
    return tuple(_pod(item) for item in found if at(item, "spec", "nodeName") and not _ended(item))


def _ended(item: Object) -> bool:
    return at(item, "status", "phase") in ("Succeeded", "Failed")


def _pod(item: Object) -> PodSight:
    labels = words(item, "metadata", "labels")
    is_worker = labels.get("app.kubernetes.io/name") == "slurmd"
    conditions = items(item, "status", "conditions")
    return PodSight(
        namespace=item["metadata"]["namespace"],
        name=item["metadata"]["name"],
        node=item["spec"]["nodeName"],
        gpus=sum(_gpus(container) for container in items(item, "spec", "containers")),
        ready=any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
        worker=(labels.get(_WORKER) or at(item, "spec", "hostname") or item["metadata"]["name"]) if is_worker else "",
        part=labels.get(_PART, ""),
        share=labels.get(_SHARE, ""),
        lent=labels.get(_LENT) == "true",
    )


def _gpus(container: Object) -> int:
    limits = words(container, "resources", "limits")
    return sum(_whole(limits.get(name)) for name in GPU_RESOURCES)


def _whole(value: object) -> int:
    """A whole number as Kubernetes and Slurm write it, also `{"set": true, "number": 3}`; 0 for anything else."""
    if isinstance(value, Mapping):
        number = cast(Mapping[str, Any], value)
        value = number.get("number") if number.get("set", True) and not number.get("infinite") else None
    try:
        return int(str(value))
    except ValueError:
        return 0


def slurm_nodes(found: Mapping[str, SlurmNode]) -> dict[str, SlurmNodeSight]:
    """The nodes of Slurm by name."""
    return {name: SlurmNodeSight(name, each.states, each.reason) for name, each in found.items()}


def job(item: Object) -> JobSight:
    """A job as slurmrestd tells it (`GET /jobs/`)."""
    states = cast("list[str]", at(item, "job_state") or ["UNKNOWN"])
    reason = str(at(item, "state_reason") or "")
    held = tuple(str(each["name"]) for each in items(item, "job_resources", "nodes", "allocation"))
    state = str(states[0]).upper()
    return JobSight(
        id=str(item["job_id"]),
        name=str(at(item, "name") or ""),
        # slurmctld has no name for people whom only workers and login nodes know.
        user=str(at(item, "user_name") or f"uid {at(item, 'user_id')}"),
        state=state,
        partition=str(at(item, "partition") or ""),
        reason="" if reason in ("None", "") else reason,
        nodes=held or expanded(str(at(item, "nodes") or "")),
        gpus=_job_gpus(item),
        restarts=_whole(at(item, "restart_cnt")),
        since=0.0 if state == "PENDING" else float(_whole(at(item, "start_time"))),
    )


def _job_gpus(item: Object) -> int:
    """GPUs that a job has, or asks for. Sums of trackable resources name them only where accounting counts them."""
    held = sum(_gpus_in(each) for each in cast("list[str]", at(item, "gres_detail") or []))
    if held:
        return held
    # `set` is false for this one, though it has a number (26.05).
    nodes = _whole(at(item, "node_count", "number"))
    return (
        _gpus_in(at(item, "tres_per_job"))
        or _gpus_in(at(item, "tres_per_node")) * nodes
        or _gpus_in(at(item, "tres_per_task")) * _whole(at(item, "tasks"))
        or _gpus_in(at(item, "tres_alloc_str") or at(item, "tres_req_str"))
    )


def _gpus_in(text: object) -> int:
    found = _GPUS.search(str(text or ""))
    return int(found[1]) if found else 0


def expanded(names: str) -> tuple[str, ...]:
    """A list of Slurm's nodes written out: `a-[0-1,07],b` is `a-0`, `a-1`, `a-07` and `b`."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", names):
        head, _, inside = part.partition("[")
        ranges = inside.rstrip("]").split(",") if inside else [""]
        for each in ranges:
            first, dash, last = each.partition("-")
            if dash and first.isdigit() and last.isdigit():
                found += [f"{head}{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
            else:
                found.append(f"{head}{each}")
    return tuple(found)
