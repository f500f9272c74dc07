"""What the state file has for the console, as plain records. Belongs to the event loop's thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud import pools
from localcloud.api import autoclusters
from localcloud.autoclusters import incidents
from localcloud.autoclusters.incidents import Incident
from localcloud.cloud import Cloud
from localcloud.console.sights import ClusterSight, News
from localcloud.operations import FAILED, Operation
from localcloud.store import Object

_MOST_NOTICES = 40
_NOTICES = ("autoclusters.", "alert.", "notice.")
"""Beginnings of the kinds of events that are somebody's notices. `alert.` and `notice.` are for whoever receives such
things on this machine: their `detail` may have `message`, `severity` and `node`."""


@dataclass(frozen=True)
class Vm:
    """A VM of a pool. `domain` is its NVLink domain, `leaf` its InfiniBand pod, where it has one."""

    id: str
    name: str
    state: str
    domain: str = ""
    leaf: str = ""


@dataclass(frozen=True)
class Pool:
    """A node pool with the GPUs that each of its VMs has."""

    id: str
    name: str
    vm_type: str
    location: str
    gpus: int
    count: int
    vms: Sequence[Vm] = ()


@dataclass(frozen=True)
class Issue:
    """An issue that AutoClusters knows, what is done about it, and whether that is the user's choice."""

    name: str
    action: str
    chosen: bool


@dataclass(frozen=True)
class Cluster:
    """A CMK cluster. `issues` is empty where it has no AutoClusters."""

    id: str
    name: str
    version: str
    state: str
    pools: Sequence[Pool] = ()
    issues: Sequence[Issue] = ()


@dataclass(frozen=True)
class Replacement:
    """An operation of AutoClusters; times in seconds of the machine's clock, `ended` 0 while it goes on."""

    id: str
    vm_id: str
    issue: str
    state: str
    began: float
    ended: float
    message: str = ""


@dataclass(frozen=True)
class Notice:
    """Something that somebody was told; `detail` as it was recorded."""

    at: float
    kind: str
    subject: str
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class Picture:
    """All that the pages show, at one moment (seconds of the machine's clock). Lists are oldest first."""

    at: float
    clusters: Sequence[Cluster] = ()
    sights: Mapping[str, ClusterSight] = field(default_factory=dict[str, ClusterSight])
    incidents: Sequence[Incident] = ()
    news: Sequence[News] = ()
    replacements: Sequence[Replacement] = ()
    notices: Sequence[Notice] = ()
    webhook: str = ""


def version(cloud: Cloud) -> str:
    """Another text whenever a page may look different. Cheap: it is asked a few times a second for each open page."""
    one = cloud.store.connection.execute(
        "SELECT (SELECT max(id) FROM events), (SELECT count(*) || '/' || count(completed_at) FROM operations), "
        "(SELECT group_concat(json_extract(body, '$.phase') || json_array_length(body, '$.outbox')) FROM objects "
        "WHERE kind = 'incident'), (SELECT count(*) FROM objects WHERE kind = 'vm'), "
        "(SELECT group_concat(json_extract(hidden, '$.autoclusters.updated_at')) FROM objects "
        "WHERE kind = 'cluster'), (SELECT group_concat(value) FROM settings)"
    ).fetchone()
    return "|".join(map(str, (*one, cloud.sights.version)))


def picture(cloud: Cloud, now: float) -> Picture:
    """Everything; `now` in seconds of the machine's clock."""
    offset = cloud.clock.offset
    projects = cloud.facts.projects.values()
    machines = _vms(cloud)
    kept = [each for project in projects for each in cloud.operations.list(autoclusters.OPERATIONS, project)]
    return Picture(
        at=now,
        clusters=tuple(_cluster(cloud, each, machines) for each in cloud.store.all(pools.CLUSTER)),
        sights=cloud.sights.all(),
        incidents=tuple(incidents.every(cloud)),
        news=cloud.sights.news(),
        replacements=tuple(_replacement(each, offset) for each in kept),
        notices=tuple(
            Notice(each.at - offset, each.kind, each.subject, each.detail)
            for each in cloud.journal.newest(_MOST_NOTICES, _NOTICES)
        ),
        webhook=incidents.webhook(cloud),
    )


def _cluster(cloud: Cloud, cluster: Object, machines: Mapping[str, Sequence[Vm]]) -> Cluster:
    overrides: Mapping[str, str] = cluster.hidden.get("autoclusters", {}).get("overrides", {})
    return Cluster(
        cluster.id,
        cluster.name,
        cluster.body["version"],
        cluster.body["state"],
        tuple(
            _pool(cloud, each, machines.get(each.id, ())) for each in cloud.store.all(pools.POOL, parent_id=cluster.id)
        ),
        tuple(
            Issue(name, action, name in overrides)
            for name, action in sorted(autoclusters.effective_actions(cloud, cluster).items())
        ),
    )


def _pool(cloud: Cloud, pool: Object, machines: Sequence[Vm]) -> Pool:
    vm_type = pool.body["type"]
    return Pool(
        pool.id,
        pool.name,
        vm_type,
        pool.hidden["location"],
        cloud.facts.vm_types[vm_type].gpus,
        pool.body["count"],
        machines,
    )


def _vms(cloud: Cloud) -> Mapping[str, Sequence[Vm]]:
    """The VMs by pool, in order of creation. Reads values and not documents, since there may be thousands."""
    rows = cloud.store.connection.execute(
        "SELECT parent_id, id, name, json_extract(body, '$.state'), json_extract(body, '$.nvlink_domain_id'), "
        "json_extract(body, '$.pod_id') FROM objects WHERE kind = 'vm' ORDER BY seq"
    )
    domains = cloud.facts.nvlink_domains
    found: dict[str, list[Vm]] = {}
    for pool, identifier, name, state, domain, leaf in rows:
        rack = domains[domain].name if domain in domains else ""
        found.setdefault(pool, []).append(Vm(identifier, name, state, rack, leaf or ""))
    return found


def _replacement(operation: Operation, offset: float) -> Replacement:
    message = str(operation.result["message"]) if operation.state == FAILED else ""
    return Replacement(
        operation.id,
        operation.resource_id,
        str(operation.metadata.get("issue_name", "")),
        operation.state,
        operation.started_at - offset,
        0.0 if operation.completed_at is None else operation.completed_at - offset,
        message,
    )
