"""From the answers of the APIs to what the exporter sees: pure functions. Nodes and jobs are read as the actor does."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from actor import facts, read
from actor.read import items, part
from actor.state import KubeNode, SlurmNode
from exporter.settings import Settings
from exporter.sources import Asked, CloudPool, Machine, Operation, Quota

Json = Mapping[str, Any]
LENT_LABEL = "gpuplatform/lent"
"""Label of a NodeSet on borrowed nodes (`components/slurm/slinky.py`)."""


def operation(item: Json) -> Operation:
    """An operation of AutoClusters; fields of its metadata that the API leaves out are empty."""
    metadata = part(item, "metadata")
    return Operation(
        str(item.get("operation_id") or "none"),
        str(item.get("state") or "").upper(),
        vm=str(metadata.get("vm_id") or ""),
        issue=str(metadata.get("issue_name") or ""),
        kind=str(metadata.get("operation_type") or ""),
        started=moment(item.get("started_at")),
        completed=moment(item.get("completed_at")),
    )


def cloud_pool(item: Json, vms: Iterable[Json]) -> CloudPool:
    """A node pool with its VMs."""
    running = sum(str(vm.get("state", "")).upper().endswith("RUNNING") for vm in vms)
    return CloudPool(str(item["name"]), int(item.get("count") or 0), running)


def quota(item: Json) -> Quota:
    """A quota."""
    return Quota(str(item["name"]), float(item.get("used") or 0), float(item.get("max") or 0))


def free(rows: Iterable[Json], location: str) -> dict[str, int]:
    """Hosts that could be started now in a location, by VM type."""
    return {str(row["type"]): int(row.get("quantity") or 0) for row in rows if row.get("location") == location}


def machine(item: Json, settings: Settings, workers: Mapping[str, str]) -> Machine:
    """A Node; `workers` are names of Slurm's nodes by the Kubernetes node that they are on."""
    node = read.kube_node(item)
    allocatable = part(part(item, "status"), "allocatable")
    pool = settings.pools.get(settings.pool_key(node.pool))
    leaf = node.labels.get(facts.POD_LABEL) or node.labels.get(facts.PARTITION_LABEL) or "none"
    return Machine(
        node,
        gpus=count(allocatable.get(pool.resource)) if pool and pool.resource else 0,
        ready="Ready" in node.conditions,
        slurm_name=workers.get(node.name, ""),
        leaf=leaf,
        issue=_issue(item, node),
    )


def _issue(item: Json, node: KubeNode) -> str:
    """What is wrong in AutoClusters' words: the mark's value begins with it, or it is a condition's reason."""
    mark = [node.remediation.text.partition("=")[2]] if node.remediation else []
    reasons = [
        str(each.get("reason"))
        for each in items(part(item, "status"), "conditions")
        if each.get("status") == "True" and each["type"] not in facts.USUAL_CONDITIONS
    ]
    found = (re.match(r"[A-Z][A-Z0-9_]*(?=-|@|$)", text) for text in (*mark, *reasons))
    return next((each[0] for each in found if each), "none")


def workers(pods: Iterable[Json]) -> dict[str, str]:
    """Names of Slurm's nodes by the Kubernetes node that their workers are on."""
    found = [read.worker(pod) for pod in pods if _labels(pod).get("app.kubernetes.io/name") == "slurmd"]
    return {each.node: each.slurm_name for each in found if each is not None}


def asked(pods: Iterable[Json], resources: Iterable[str]) -> dict[str, Asked]:
    """GPUs by namespace: of pods that have a node, and of those that wait for one."""
    names = [*resources]
    found: dict[str, Asked] = {}
    for pod in pods:
        gpus = sum(
            count(part(part(container, "resources"), "limits").get(name))
            for container in items(part(pod, "spec"), "containers")
            for name in names
        )
        if not gpus or part(pod, "status").get("phase") in ("Succeeded", "Failed"):
            continue
        space = pod["metadata"]["namespace"]
        before = found.get(space, Asked())
        if part(pod, "spec").get("nodeName"):
            found[space] = Asked(before.held + gpus, before.waiting)
        else:
            found[space] = Asked(before.held, before.waiting + gpus)
    return found


def lent(node_sets: Iterable[Json], settings: Settings) -> dict[str, int]:
    """Workers that are ready on borrowed nodes, by the pool's key; 0 for a pool that lends and does not now."""
    found: dict[str, int] = {}
    for item in node_sets:
        if _labels(item).get(LENT_LABEL) == "true":
            selector = part(part(part(part(item, "spec"), "template"), "spec"), "nodeSelector")
            pool = settings.pool_key(str(selector.get(facts.POOL_LABEL, "")))
            found[pool] = found.get(pool, 0) + count(part(item, "status").get("readyReplicas"))
    return found


def slurm_gpus(node: SlurmNode) -> int:
    """GPUs that a node of Slurm has: of its Gres, such as `gpu:h100:8(S:0-1),nic:2`, or fewer where slurmd found fewer.

    Then Gres still says what is configured, and the reason what was found (26.05: `gres/gpu count reported lower than
    configured (7 < 8)`).
    """
    fewer = re.search(r"gres/gpu count reported lower than configured \((\d+) < \d+\)", node.reason)
    if fewer:
        return int(fewer[1])
    return sum(map(int, re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)", node.gres)))


def token_expires(token: str) -> float:
    """When a JWT ends; 0 where it does not say."""
    try:
        payload = token.split(".")[1]
        found: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(found["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return 0.0


def moment(text: object) -> float:
    """A time of Crusoe's API; 0 for none."""
    try:
        return datetime.fromisoformat(str(text or "").replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def count(value: object) -> int:
    """A count as Kubernetes writes it; 0 for none."""
    text = str(value)
    return int(text) if text.isdecimal() else 0


def _labels(item: Json) -> dict[str, Any]:
    return part(item["metadata"], "labels")
