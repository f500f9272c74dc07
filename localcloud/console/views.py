"""What the templates print: pure functions of a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from localcloud.autoclusters.incidents import Incident
from localcloud.console import roles
from localcloud.console.gathering import Cluster, Issue, Notice, Picture, Pool, Replacement
from localcloud.console.repairs import Repair, repair
from localcloud.console.roles import ROLES, STATES, WELL, Kind, Node, Role, State
from localcloud.console.sights import ClusterSight, JobSight

DENSE_NODES = 150
"""From so many nodes on they are shown as small as can still be read."""

_MOST_REPAIRS, _MOST_JOBS, _MOST_REPLACEMENTS, _MOST_TROUBLES = 5, 40, 20, 50
_STALE_SECONDS = 30.0
_NARROWEST = 4


@dataclass(frozen=True)
class Share:
    """A part of the GPUs: its role, how it is shown, and where it begins and how wide it is of 1,000."""

    role: Role
    kind: Kind
    gpus: int
    start: int = 0
    width: int = 0


@dataclass(frozen=True)
class Cell:
    """A node in the grid. `runs` are its GPUs, the same role together; `words` say all that the signs say."""

    name: str
    short: str
    state: State
    kind: Kind
    runs: Sequence[tuple[Role, str]]
    words: str
    well: bool


@dataclass(frozen=True)
class Group:
    """Nodes that belong together: an NVLink domain (rack), an InfiniBand pod (leaf), or a whole pool."""

    title: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class PoolView:
    """A pool with its nodes."""

    name: str
    about: str
    summary: str
    groups: Sequence[Group]


@dataclass(frozen=True)
class JobView:
    """A job of Slurm; `since` is how long it has run, in words."""

    id: str
    name: str
    user: str
    state: str
    sign: str
    nodes: str
    gpus: int
    note: str
    since: str


@dataclass(frozen=True)
class ClusterView:
    """A cluster with its pools and its jobs. `note` says what isn't known of it now."""

    name: str
    about: str
    note: str
    pools: Sequence[PoolView]
    has_slurm: bool
    jobs: Sequence[JobView]
    more_jobs: int
    issues: Sequence[Issue]


@dataclass(frozen=True)
class Trouble:
    """A node that needs a look."""

    name: str
    pool: str
    kind: Kind
    why: str


@dataclass(frozen=True)
class Headline:
    """How things are, in one word and a sentence."""

    level: str
    sign: str
    word: str
    text: str


@dataclass(frozen=True)
class Overview:
    """The first page."""

    at: str
    headline: Headline
    nodes: int
    gpus: int
    shares: Sequence[Share]
    in_jobs: int
    dense: bool
    clusters: Sequence[ClusterView]
    troubles: Sequence[Trouble]
    more_troubles: int
    repairs: Sequence[Repair]
    replacements: Sequence[tuple[str, Replacement]]
    notices: Sequence[tuple[str, str, str]]
    undelivered: int
    webhook: str


@dataclass(frozen=True)
class Holder:
    """A pod on a node."""

    name: str
    namespace: str
    gpus: int
    kind: Kind | None
    ready: bool


@dataclass(frozen=True)
class NodePage:
    """The page of a node. `facts` are names with values."""

    at: str
    name: str
    state: State
    kind: Kind
    facts: Sequence[tuple[str, str]]
    shares: Sequence[Share]
    gpus: int
    holders: Sequence[Holder]
    jobs: Sequence[JobView]
    repairs: Sequence[Repair]
    power: bool
    can_fail: bool


def overview(picture: Picture) -> Overview:
    """The first page."""
    newest = _newest(picture.incidents)
    found = {pool.id: _nodes(picture, cluster, pool, newest) for cluster in picture.clusters for pool in cluster.pools}
    everything = [node for each in found.values() for node in each]
    total = roles.total(everything)
    dense = len(everything) >= DENSE_NODES
    repairs = [_repair(picture, each) for each in reversed(picture.incidents)]
    troubles = tuple(_troubles(picture, found))
    names = {node.vm.id: node.vm.name for node in everything} | {each.vm_id: each.node for each in picture.incidents}
    return Overview(
        at=clock(picture.at),
        headline=_headline(picture, troubles, repairs),
        nodes=len(everything),
        gpus=sum(total.values()),
        shares=shares(total),
        in_jobs=sum(job.gpus for sight in picture.sights.values() for job in sight.jobs if job.running),
        dense=dense,
        clusters=tuple(_cluster(picture, each, found, dense=dense) for each in picture.clusters),
        troubles=troubles[:_MOST_TROUBLES],
        more_troubles=max(0, len(troubles) - _MOST_TROUBLES),
        repairs=sorted(repairs, key=lambda each: not each.open)[:_MOST_REPAIRS],
        replacements=tuple(
            (names.get(each.vm_id, each.vm_id), each) for each in picture.replacements[: -_MOST_REPLACEMENTS - 1 : -1]
        ),
        notices=tuple((clock(each.at), *_notice(each)) for each in reversed(picture.notices)),
        undelivered=sum(len(each.outbox) for each in picture.incidents),
        webhook=picture.webhook,
    )


def node_page(picture: Picture, name: str) -> NodePage | None:
    """The page of a node; None where there is none of this name."""
    newest = _newest(picture.incidents)
    for cluster in picture.clusters:
        for pool in cluster.pools:
            for node in _nodes(picture, cluster, pool, newest):
                if node.vm.name == name:
                    return _node_page(picture, cluster, pool, node)
    return None


def _node_page(picture: Picture, cluster: Cluster, pool: Pool, node: Node) -> NodePage:
    sight = picture.sights.get(cluster.id)
    seen = node.sight
    workers = [sight.slurm_nodes[name] for name in node.workers if name in sight.slurm_nodes] if sight else []
    facts = [
        ("Cluster", cluster.name),
        ("Pool", pool.name),
        ("VM type", pool.vm_type),
        ("Location", pool.location),
        ("VM", f"{node.vm.id}, {_plain(node.vm.state)}"),
        ("Rack", node.vm.domain),
        ("Leaf", node.vm.leaf),
        ("Place in Slurm's topology", seen.place if seen else ""),
        ("In Slurm", "; ".join(f"{each.name}: {', '.join(sorted(each.states)).lower()}" for each in workers)),
        ("Drained because", "; ".join(each.reason for each in workers if each.drained)),
        ("Broken GPUs", ", ".join(map(str, sorted(seen.lost))) if seen else ""),
        ("Problem detector", seen.unhealthy if seen else ""),
        ("Mark of a repair", seen.mark if seen else ""),
    ]
    return NodePage(
        at=clock(picture.at),
        name=node.vm.name,
        state=node.state,
        kind=STATES[node.state],
        facts=[(name, value) for name, value in facts if value],
        shares=shares(node.held),
        gpus=pool.gpus,
        holders=[
            Holder(
                each.name, each.namespace, each.gpus, ROLES[roles.role(each)] if each.gpus else None, ready=each.ready
            )
            for each in sorted(node.pods, key=lambda each: (-each.gpus, each.namespace, each.name))
        ],
        jobs=[_job(each, picture.at) for each in (sight.jobs if sight else ()) if each.id in node.jobs],
        repairs=[_repair(picture, each) for each in reversed(picture.incidents) if each.vm_id == node.vm.id],
        power=seen.power if seen else True,
        can_fail=node.vm.state == "STATE_RUNNING" and seen is not None,
    )


def shares(held: Mapping[Role, int]) -> Sequence[Share]:
    """The GPUs by role, as parts of a bar that is 1,000 wide; a role that has some is never too narrow to be seen."""
    total, shown = sum(held.values()), sum(count > 0 for count in held.values())
    elastic = 1000 - shown * _NARROWEST
    found: list[Share] = []
    start = before = parts = 0
    for name, kind in ROLES.items():
        before, parts = before + held[name], parts + (held[name] > 0)
        end = parts * _NARROWEST + elastic * before // total if total else 0
        found.append(Share(name, kind, held[name], start, end - start))
        start = end
    return found


def clock(at: float) -> str:
    """A moment as `03:12:07`, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def span(seconds: float) -> str:
    """A time span as a person reads it: `3.4 s`, `48 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(0, round(seconds))
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _repair(picture: Picture, incident: Incident) -> Repair:
    issues = next((each.issues for each in picture.clusters if each.id == incident.cluster_id), ())
    action = next((each.action for each in issues if each.name == incident.issue), None)
    return repair(incident, action, picture.news, picture.at)


def _newest(found: Sequence[Incident]) -> Mapping[str, Incident]:
    return {each.vm_id: each for each in found}


def _nodes(picture: Picture, cluster: Cluster, pool: Pool, newest: Mapping[str, Incident]) -> Sequence[Node]:
    return roles.nodes(pool.vms, pool.gpus, picture.sights.get(cluster.id), newest)


def _cluster(picture: Picture, cluster: Cluster, found: Mapping[str, Sequence[Node]], *, dense: bool) -> ClusterView:
    sight = picture.sights.get(cluster.id)
    jobs = sorted(sight.jobs, key=_job_order) if sight else []
    return ClusterView(
        cluster.name,
        f"Kubernetes {cluster.version}, {_plain(cluster.state)}",
        _unknown(sight, picture.at) if cluster.state == "STATE_RUNNING" else "",
        tuple(_pool(pool, found[pool.id], dense=dense) for pool in cluster.pools),
        sight is not None and sight.slurm,
        tuple(_job(each, picture.at) for each in jobs[:_MOST_JOBS]),
        max(0, len(jobs) - _MOST_JOBS),
        cluster.issues,
    )


def _unknown(sight: ClusterSight | None, now: float) -> str:
    if sight is None:
        return "Kubernetes was not asked yet."
    notes: list[str] = []
    if sight.trouble or now - sight.at > _STALE_SECONDS:
        said = f": {sight.trouble}" if sight.trouble else ""
        notes.append(f"Kubernetes does not answer{said}. What is shown is of {clock(sight.at)}.")
    if sight.slurm_trouble:
        notes.append(f"Slurm does not answer: {sight.slurm_trouble}. Its nodes and jobs are as they were seen last.")
    return " ".join(notes)


def _pool(pool: Pool, found: Sequence[Node], *, dense: bool) -> PoolView:
    total = roles.total(found)
    held = ", ".join(f"{count} {ROLES[name].word}" for name, count in total.items() if count)
    nodes = f"{len(found)} of {pool.count} nodes" if len(found) != pool.count else f"{len(found)} nodes"
    about = f"{pool.vm_type}, {pool.location}"
    summary = f"{nodes}, {sum(total.values())} GPUs: {held}" if pool.gpus else nodes
    return PoolView(pool.name, about, summary, tuple(_groups(found, pool.gpus, dense=dense)))


def _groups(found: Sequence[Node], gpus: int, *, dense: bool) -> Iterator[Group]:
    # In the order in which their first nodes came.
    places = list(dict.fromkeys(map(_place, found)))
    ordered = sorted(found, key=lambda node: places.index(_place(node)))
    for place, members in groupby(ordered, key=_place):
        title = f"Rack {place[0]}" if place[0] else f"Leaf {place[1][:8]}" if place[1] else ""
        yield Group(title, tuple(_cell(each, gpus, dense=dense) for each in members))


def _place(node: Node) -> tuple[str, str]:
    return node.vm.domain, node.vm.leaf


def _cell(node: Node, gpus: int, *, dense: bool) -> Cell:
    kind = STATES[node.state]
    held: list[tuple[Role, int]] = [(name, node.held[name]) for name in ROLES if node.held[name]]
    words = [kind.word, *(f"{count} {ROLES[name].word}" for name, count in held)]
    if node.jobs:
        words.append(f"{'job' if len(node.jobs) == 1 else 'jobs'} {', '.join(node.jobs)}")
    runs: list[tuple[Role, str]] = [
        (name, f"{ROLES[name].sign}{count}" if dense else ROLES[name].sign * count) for name, count in held
    ]
    short = node.vm.name.rpartition("-")[2]
    return Cell(
        node.vm.name,
        short,
        node.state,
        kind,
        runs if gpus else (),
        f"{node.vm.name}: {', '.join(words)}",
        node.state in WELL,
    )


def _troubles(picture: Picture, found: Mapping[str, Sequence[Node]]) -> Iterator[Trouble]:
    pools = {pool.id: pool.name for cluster in picture.clusters for pool in cluster.pools}
    rows = [(node, pools[pool_id]) for pool_id, each in found.items() for node in each if node.state not in WELL]
    order = list(STATES)
    for node, pool in sorted(rows, key=lambda row: order.index(row[0].state)):
        yield Trouble(node.vm.name, pool, STATES[node.state], _why(picture, node))


def _why(picture: Picture, node: Node) -> str:
    if node.incident is not None and node.state in ("fault", "repair"):
        return f"{node.incident.issue} on GPU {node.incident.gpu}, {node.incident.phase}"
    if node.sight is not None and (node.sight.lost or node.sight.unhealthy):
        lost = f"GPU {', '.join(map(str, sorted(node.sight.lost)))} lost" if node.sight.lost else ""
        return ", ".join(each for each in (node.sight.unhealthy, lost) if each)
    reasons = (
        sight.slurm_nodes[name].reason
        for sight in picture.sights.values()
        for name in node.workers
        if name in sight.slurm_nodes
    )
    return next((reason for reason in reasons if reason), STATES[node.state].meaning)


def _headline(picture: Picture, troubles: Sequence[Trouble], repairs: Sequence[Repair]) -> Headline:
    if not picture.clusters:
        return Headline("quiet", "○", "Nothing here", "There is no cluster. `make up` makes one.")
    stuck = [each for each in repairs if each.phase == "stalled"]
    going = [each for each in repairs if each.open and each.phase != "stalled"]
    waiting = sum(job.waiting for sight in picture.sights.values() for job in sight.jobs)
    queue = f" {_count(waiting, 'job waits', 'jobs wait')}." if waiting else ""
    if stuck:
        text = f"{_count(len(stuck), 'repair waits', 'repairs wait')} for a machine: there is no spare one."
        return Headline("bad", "✕", "Stuck", text + queue)
    others = len([each for each in troubles if each.kind is not STATES["repair"]])
    if going:
        text = f"{_count(len(going), 'node is', 'nodes are')} being repaired."
        text += f" {_count(others, 'other needs', 'others need')} a look." if others else " Nothing is to be done."
        return Headline("busy", "◆", "Healing", text + queue)
    if troubles:
        text = f"{_count(len(troubles), 'node needs', 'nodes need')} a look; the table below says why."
        return Headline("bad", "!", "Attention", text + queue)
    if any(_unknown(picture.sights.get(each.id), picture.at) for each in picture.clusters):
        return Headline("quiet", "□", "Not known", "Not every cluster answers; its heading says why." + queue)
    return Headline("well", "●", "All well", "Every node is as it should be." + queue)


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _job_order(job: JobSight) -> tuple[int, int]:
    number = int(job.id) if job.id.isdigit() else 0
    return (0 if job.running else 1 if job.waiting else 2), -number


def _job(job: JobSight, now: float) -> JobView:
    notes = [job.reason] if job.waiting and job.reason else []
    if job.restarts:
        notes.append(f"requeued {_count(job.restarts, 'time', 'times')}")
    return JobView(
        job.id,
        job.name,
        job.user,
        job.state.lower(),
        "●" if job.running else "○" if job.waiting else "■",
        ", ".join(job.nodes),
        job.gpus,
        ", ".join(notes),
        span(now - job.since) if job.running and job.since else "",
    )


def _notice(notice: Notice) -> tuple[str, str]:
    """What a notice is about, and what it says."""
    about = str(notice.detail.get("node") or notice.subject)
    kind = notice.kind.partition(".")[2].replace("_", " ")
    said = [str(notice.detail[key]) for key in ("severity", "issue", "message") if notice.detail.get(key)]
    return about, ", ".join([kind, *said])


def _plain(state: str) -> str:
    return state.removeprefix("STATE_").lower()
