"""Incidents: a fault of a VM and how far its repair is. They are kept in the state file, so a repair outlives a kill.

All functions belong to the event loop's thread, where the state is.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from localcloud import pools
from localcloud.api import autoclusters
from localcloud.autoclusters.notices import KINDS, Kind, notice
from localcloud.cloud import Cloud, new_id
from localcloud.operations import Operation
from localcloud.state import HOST
from localcloud.store import Json, Object

INCIDENT = "incident"
Phase = Literal[
    "injected",
    "failed",
    "detected",
    "isolated",
    "replacing",
    "stalled",
    "replaced",
    "off",
    "opted-out",
    "uncovered",
    "gone",
]
"""How far it is; the last five are ends. `uncovered`: AutoClusters knows no such issue, or doesn't repair such a VM."""
ENDS: tuple[Phase, ...] = ("replaced", "off", "opted-out", "uncovered", "gone")


@dataclass(frozen=True)
class Delays:
    """Seconds: until a fault is seen, until a cordoned node's pods are evicted, so that whoever watches for cordons can
    move work away in order, and how long pods may hold up a repair (Crusoe: two minutes)."""

    detect: float = 2.0
    cordon: float = 8.0
    grace: float = 120.0


@dataclass(frozen=True)
class Incident:
    """One fault and its repair. `since` is when its phase began, in seconds of the machine's clock.

    `gpu` counts from 0. `operation_id` is the last try of a replacement. `history` holds each phase with its moment.
    """

    id: str
    project_id: str
    cluster_id: str
    pool_id: str
    vm_id: str
    node: str
    xid: int
    gpu: int
    phase: Phase
    since: float
    history: tuple[tuple[str, float], ...] = ()
    operation_id: str = ""
    outbox: tuple[Json, ...] = ()

    @property
    def issue(self) -> str:
        """The issue's name in AutoClusters' catalogue."""
        return f"XID_{self.xid}"

    @property
    def open(self) -> bool:
        """Whether something is still to happen."""
        return self.phase not in ENDS


def delays(cloud: Cloud) -> Delays:
    """The delays as they are set."""
    return Delays(**{key: float(value) for key, value in cloud.store.settings("autoclusters_seconds:").items()})


def set_delays(cloud: Cloud, **seconds: float) -> None:
    """Set delays by name; the others stay."""
    for name, value in seconds.items():
        cloud.store.set_setting(f"autoclusters_seconds:{name}", value)


def webhook(cloud: Cloud) -> str:
    """Where notices go; empty for nowhere."""
    return cloud.store.setting("autoclusters_webhook", "")


def set_webhook(cloud: Cloud, url: str) -> None:
    """Set where notices go. Raises ValueError for what is not on this machine: nothing here may leave it."""
    parts = urlsplit(url)
    if url and (parts.scheme != "http" or parts.hostname not in (HOST, "localhost")):
        raise ValueError(f"{url!r} is no http address of this machine, such as http://127.0.0.1:9000/")
    cloud.store.set_setting("autoclusters_webhook", url)


def report(cloud: Cloud, vm: Object, pool: Object, xid: int, gpu: int) -> Incident:
    """A GPU of a VM has a fault from now on. A VM that is under repair already has the one incident."""
    with cloud.store.transaction():
        for each in of_cluster(cloud, pool.body["cluster_id"]):
            if each.vm_id == vm.id and each.open:
                return each
        now = time.time()
        incident = Incident(
            id=new_id(),
            project_id=vm.project_id,
            cluster_id=pool.body["cluster_id"],
            pool_id=pool.id,
            vm_id=vm.id,
            node=vm.name,
            xid=xid,
            gpu=gpu,
            phase="injected",
            since=now,
            history=(("injected", now),),
        )
        item = Object(INCIDENT, incident.id, vm.project_id, incident.id, asdict(incident), incident.cluster_id)
        cloud.store.insert(item)
    return incident


def of_cluster(cloud: Cloud, cluster_id: str) -> list[Incident]:
    """Every incident of a cluster, oldest first."""
    return [_read(item) for item in cloud.store.all(INCIDENT, parent_id=cluster_id)]


def every(cloud: Cloud) -> list[Incident]:
    """Every incident there was, oldest first."""
    return [_read(item) for item in cloud.store.all(INCIDENT)]


def action(cloud: Cloud, incident: Incident) -> str | None:
    """What is to be done about it, as the configuration says now; None where AutoClusters doesn't cover it."""
    vm, cluster = cloud.store.get(pools.VM, incident.vm_id), cloud.store.get(pools.CLUSTER, incident.cluster_id)
    if cluster is None or vm is None or not cloud.facts.vm_types[vm.body["type"]].whole_host:
        return None
    return autoclusters.effective_actions(cloud, cluster).get(incident.issue)


def room(cloud: Cloud, incident: Incident) -> bool:
    """Whether a VM for its pool could start now, or the pool is whole without."""
    pool = cloud.store.get(pools.POOL, incident.pool_id)
    return pool is None or pools.can_fill(cloud, pool)


def operation(cloud: Cloud, incident: Incident) -> Operation | None:
    """The last try of a replacement."""
    return cloud.operations.get(incident.operation_id) if incident.operation_id else None


def advance(cloud: Cloud, incident: Incident, phase: Phase, tell: Kind | None = None, message: str = "") -> Incident:
    """Write that the next phase begins, with what is told of it; both or neither."""
    with cloud.store.transaction():
        return _save(cloud, _with_phase(incident, phase), tell, message)


def replace_vm(cloud: Cloud, incident: Incident) -> Operation:
    """Open the operation that replaces the VM; it is launched by the caller."""
    with cloud.store.transaction():
        opened = autoclusters.open_replacement(
            cloud,
            incident.project_id,
            incident.cluster_id,
            incident.pool_id,
            incident.vm_id,
            issue_name=incident.issue,
            drained=True,
        )
        _save(cloud, replace(_with_phase(incident, "replacing"), operation_id=opened.id))
    return opened


def delivered(cloud: Cloud, incident_id: str, *, tried: bool) -> None:
    """The first notice of an incident has arrived, or one more try to deliver it has failed."""
    item = cloud.store.get(INCIDENT, incident_id)
    if item is None or not item.body["outbox"]:
        return
    first, *rest = item.body["outbox"]
    if tried:
        rest = [{**first, "tries": first["tries"] + 1}, *rest]
    item.body["outbox"] = rest
    with cloud.store.transaction():
        cloud.store.save(item)


def _with_phase(incident: Incident, phase: Phase) -> Incident:
    now = time.time()
    return replace(incident, phase=phase, since=now, history=(*incident.history, (phase, now)))


def _save(cloud: Cloud, incident: Incident, tell: Kind | None = None, message: str = "") -> Incident:
    if tell is not None:
        # What was opened meanwhile is in the file only.
        kept = cloud.store.get(INCIDENT, incident.id)
        waiting = tuple(kept.body["outbox"]) if kept else ()
        text = message or KINDS[tell]
        said = notice(tell, incident, text, at=cloud.clock.stamp())
        cloud.journal.record(f"autoclusters.{tell}", incident.vm_id, node=incident.node, issue=incident.issue)
        incident = replace(incident, outbox=(*waiting, {"tries": 0, "body": said}))
    item = cloud.store.get(INCIDENT, incident.id)
    if item is not None:
        item.body = asdict(incident)
        cloud.store.save(item)
    return incident


def _read(item: Object) -> Incident:
    body: dict[str, Any] = dict(item.body)
    body["history"] = tuple((str(phase), float(at)) for phase, at in body["history"])
    body["outbox"] = tuple(body["outbox"])
    return Incident(**body)
