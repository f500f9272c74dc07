"""From the answers of the two APIs to what the actor sees: pure functions."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from actor import facts
from actor.state import Job, KubeNode, Mark, Reservation, SlurmNode, Worker

Json = Mapping[str, Any]


def kube_node(item: Json) -> KubeNode:
    """A Node object."""
    metadata, spec = item["metadata"], part(item, "spec")
    labels, annotations = part(metadata, "labels"), part(metadata, "annotations")
    return KubeNode(
        metadata["name"],
        instance=labels.get(facts.INSTANCE_LABEL, ""),
        pool=labels.get(facts.POOL_LABEL, ""),
        cordoned=bool(spec.get("unschedulable")),
        labels=labels,
        annotations=annotations,
        remediation=next(_remediation(items(spec, "taints"), labels, annotations), None),
        conditions={
            each["type"]: Mark(
                f"{each['type']}@{each.get('lastTransitionTime', '')}",
                f"{each['type']}: {each.get('message') or each.get('reason') or 'True'}",
                seconds(each.get("lastTransitionTime")),
            )
            for each in items(part(item, "status"), "conditions")
            if each.get("status") == "True"
        },
    )


def _remediation(taints: Sequence[Json], labels: Json, annotations: Json) -> Iterator[Mark]:
    for taint in taints:
        if str(taint["key"]).startswith(facts.REMEDIATION):
            text = f"{taint['key']}={taint.get('value', '')}"
            yield Mark(f"{text}@{taint.get('timeAdded', '')}", text, seconds(taint.get("timeAdded")))
    for given in (annotations, labels):
        for key, value in sorted(given.items()):
            if key.startswith(facts.REMEDIATION):
                yield Mark(f"{key}={value}", f"{key}={value}")


def worker(item: Json) -> Worker | None:
    """A worker's Pod; None while it has no node, or is on its way out."""
    metadata, spec, status = item["metadata"], item["spec"], part(item, "status")
    if not spec.get("nodeName") or metadata.get("deletionTimestamp"):
        return None
    labels = part(metadata, "labels")
    ready = next((each for each in items(status, "conditions") if each["type"] == "Ready"), None) or dict[str, Any]()
    return Worker(
        metadata["name"],
        labels.get(facts.HOSTNAME_LABEL) or spec.get("hostname") or metadata["name"],
        spec["nodeName"],
        labels=labels,
        started=seconds(status.get("startTime") or metadata.get("creationTimestamp")),
        ready=seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None,
    )


def slurm_node(item: Json) -> SlurmNode:
    """A node as slurmrestd (v0.0.45) gives it."""
    return SlurmNode(
        item["name"],
        states=frozenset(item.get("state") or ()),
        reason=item.get("reason") or "",
        reason_at=number(item.get("reason_changed_at")),
        extra=item.get("extra") or "",
        partitions=frozenset(item.get("partitions") or ()),
        features=frozenset(item.get("features") or ()),
        gres=item.get("gres") or "",
        topology=item.get("topology") or "",
        last_busy=number(item.get("last_busy")),
    )


def job(item: Json) -> Job:
    """A job as slurmrestd (v0.0.45) gives it."""
    own, array, leader = int(item["job_id"]), number(item.get("array_job_id")), number(item.get("het_job_id"))
    task, code = part(item, "array_task_id"), part(item, "exit_code")
    signal = number(part(code, "signal").get("id"))
    return Job(
        own,
        f"{array}_{task['number']}" if array and task.get("set") else str(leader or own),
        states=frozenset(item.get("job_state") or ()),
        nodes=tuple(hostlist(item.get("nodes") or "")),
        node_count=number(item.get("node_count")),
        requeueable=bool(item.get("requeue")) and bool(item.get("batch_flag")),
        restarts=int(item.get("restart_cnt") or 0),
        held=bool(item.get("hold")),
        description=item.get("state_description") or "",
        reservation=item.get("resv_name") or "",
        user=item.get("user_name") or str(item.get("user_id", "")),
        account=item.get("account") or "",
        partition=item.get("partition") or "",
        comment=item.get("admin_comment") or "",
        moved_at=number(item.get("eligible_time")),
        failed="SUCCESS" not in (code.get("status") or ["SUCCESS"]),
        name=item.get("name") or "",
        # All parts of a heterogeneous job have what its owner asked for; its first part speaks for them.
        mail=frozenset() if number(item.get("het_job_offset")) else frozenset(item.get("mail_type") or ()),
        submitted=number(item.get("submit_time")),
        started=number(item.get("start_time")),
        ended=number(item.get("end_time")),
        exit=128 + signal if signal else number(code.get("return_code")),
        reason=item.get("state_reason") or "",
        node_list=item.get("nodes") or "",
        said=item.get("comment") or "",
    )


def reservation(item: Json) -> Reservation:
    """A reservation as slurmrestd (v0.0.45) gives it."""
    return Reservation(item["name"], tuple(hostlist(item.get("node_list") or "")))


def hostlist(text: str) -> Iterator[str]:
    """The names in a list of Slurm's, such as `train-[0-2,7],login-1`."""
    for name in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)?", text):
        found = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", name)
        if found is None:
            yield name
            continue
        before, ranges, after = found.groups()
        for each in ranges.split(","):
            first, _, last = each.partition("-")
            for one in range(int(first), int(last or first) + 1):
                yield f"{before}{one:0{len(first)}d}{after}"


def remembered(extra: str) -> dict[str, Any] | None:
    """A node's Extra as the actor keeps it, an object of JSON; None where somebody else keeps something in there."""
    if not extra:
        return {}
    try:
        found: object = json.loads(extra)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def seconds(text: str | None) -> int:
    """A time of Kubernetes in seconds since 1970; 0 for none, and for what is no time."""
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) if text else 0
    except ValueError:
        return 0


def number(value: Json | int | None) -> int:
    """A number of Slurm's, bare or as `{set, infinite, number}`; 0 where there is none."""
    if isinstance(value, Mapping):
        return int(value.get("number") or 0) if value.get("set") else 0
    return int(value or 0)


def part(item: Json, key: str) -> dict[str, Any]:
    """A part of an object; empty where it is absent or null."""
    found: object = item.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def items(item: Json, key: str) -> list[dict[str, Any]]:
    """A list of objects; empty where it is absent or null."""
    found: object = item.get(key)
    return cast("list[dict[str, Any]]", found) if isinstance(found, list) else []
