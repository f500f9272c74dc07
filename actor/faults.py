"""A node fails: no new jobs there, and those that run there start again elsewhere. Once for each event.

An event is AutoClusters' mark on the node or one of the fault conditions of the settings. A node that is only cordoned
is in maintenance, and its jobs run on to their end: what to do about those is up to who cordoned it.

The same event is answered once, also by another leader: the last thing written is the event's id, on the Node. If the
actor dies before, the next one begins again, which does no harm: jobs that were requeued do not run there any more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from actor import departures, facts, notes, places
from actor.actions import Action, Annotate, Cordon, Drain, Note, Report, Requeue, Terminate
from actor.departures import Departure
from actor.notes import Fault
from actor.settings import Settings
from actor.state import Job, KubeNode, Mark, Snapshot, Worker


def event(node: KubeNode, conditions: Sequence[str]) -> Mark | None:
    """What says that a node is broken; None for a healthy one, and for one in maintenance."""
    if node.remediation is not None:
        return node.remediation
    return next((node.conditions[kind] for kind in conditions if kind in node.conditions), None)


def unanswered(seen: Snapshot, settings: Settings) -> Iterator[tuple[Worker, KubeNode, Mark]]:
    """Workers on broken nodes whose event was not answered yet."""
    for worker in seen.workers:
        node = seen.nodes.get(worker.node)
        mark = event(node, settings.conditions) if node else None
        if node and mark and worker.slurm_name in seen.slurm and node.annotations.get(facts.HANDLED) != mark.id:
            yield worker, node, mark


def plan(seen: Snapshot, settings: Settings, left: Sequence[Departure] = ()) -> list[list[Action]]:
    """What to do about each broken node, in this order; a step that fails ends the list, and the next look repeats it.

    Nodes that break together are answered together: a job over two of them is requeued once, and keeps only nodes that
    are whole. `left` are jobs that have put themselves back into the queue lately.
    """
    found = list(unanswered(seen, settings))
    broken = {
        each.slurm_name
        for each in seen.workers
        if (node := seen.nodes.get(each.node)) and event(node, settings.conditions)
    }
    faults = {worker.slurm_name: _fault(seen.now, node, mark) for worker, node, mark in found}
    moved: set[int] = set()
    lists: list[list[Action]] = []
    for worker, node, mark in found:
        jobs = [job for job in seen.jobs if job.running and worker.slurm_name in job.nodes]
        gone = list(departures.of(worker.slurm_name, left, seen.jobs))
        met = [*jobs, *(job for job, _ in gone)]
        spent = [job for job in met if len(notes.read(job.comment).hosts) >= settings.repair_budget]
        lists.append([])
        if met and len(spent) == len(met):
            lists[-1] += _application(node, mark, spent)
            continue
        lists[-1] += _node(seen, worker, node, mark)
        for job in jobs:
            if job not in spent and job.id not in moved:
                moved.add(job.id)
                lists[-1] += _job(seen, job, broken, faults)
        for job, departure in gone:
            if job not in spent and job.id not in moved:
                moved.add(job.id)
                lists[-1] += _departed(seen, job, departure, broken, faults)
        told = [job for job, _ in gone if job not in spent]
        lists[-1].append(_report(worker, node, mark, jobs, told, spent, settings))
        lists[-1].append(Annotate(node.name, facts.HANDLED, mark.id))
    return lists


def host(node: KubeNode) -> str:
    """Which machine it is, in one word."""
    return node.instance or node.name


def _node(seen: Snapshot, worker: Worker, node: KubeNode, mark: Mark) -> Iterator[Action]:
    if not node.cordoned or not node.annotations.get(facts.CORDON_REASON):
        yield Cordon(node.name, mark.text[: facts.CORDON_REASON_LENGTH])
    # Whoever drained it before had a reason, which is worth more than a second one.
    if not seen.slurm[worker.slurm_name].draining:
        yield Drain(worker.slurm_name, f"{facts.OPERATOR_PREFIX}{mark.text}"[: facts.CORDON_REASON_LENGTH])


def _fault(now: int, node: KubeNode, mark: Mark) -> Fault:
    """What is to be kept of a fault; the restart is that of a job."""
    conditions = [each.since for kind, each in node.conditions.items() if kind not in facts.USUAL_CONDITIONS]
    told = max((each for each in conditions if each <= now), default=0)
    return Fault(0, told, mark.since or now, now, host(node), node.pool or "none")


def _job(seen: Snapshot, job: Job, broken: set[str], faults: Mapping[str, Fault]) -> Iterator[Action]:
    if not job.requeueable:
        yield Terminate(job)
        return
    yield _noted(job, job.nodes, job.restarts + 1, faults)
    if reserve := places.keep(seen, job, broken):
        yield reserve
    yield Requeue(job)


def _departed(
    seen: Snapshot, job: Job, departure: Departure, broken: Collection[str], faults: Mapping[str, Fault]
) -> Iterator[Action]:
    """The fault is noted, and while the job waits it keeps those of its nodes that nobody has taken meanwhile."""
    yield _noted(job, departure.nodes, departure.restarts, faults)
    if not job.pending or job.held:
        return
    taken = {name for each in seen.jobs if each.running for name in each.nodes}
    if reserve := places.keep(seen, replace(job, nodes=departure.nodes), {*broken, *taken}):
        yield replace(reserve, job=job)


def _noted(job: Job, nodes: Sequence[str], restart: int, faults: Mapping[str, Fault]) -> Note:
    before = notes.read(job.comment)
    met = [replace(faults[name], restart=restart) for name in nodes if name in faults]
    noted = replace(
        before,
        hosts=(*dict.fromkeys((*before.hosts, *(each.host for each in met))),),
        faults=before.faults + 1,
        fault=met[0],
    )
    return Note(job, notes.write(job.comment, noted))


def _application(node: KubeNode, mark: Mark, spent: Sequence[Job]) -> Iterator[Action]:
    """The same job breaks one node after the other, so it is the job: no more nodes are taken away for it."""
    for job in spent:
        count = len(notes.read(job.comment).hosts)
        yield Report(
            "application",
            "ApplicationSuspected",
            f"{mark.text}; job {job.step_id} of {job.user} has met faults on {count} other machines before, so it is "
            "thought to cause them. Nothing was drained or requeued; look at the job.",
            node.name,
        )
    yield Annotate(node.name, facts.HANDLED, mark.id)


def _report(
    worker: Worker,
    node: KubeNode,
    mark: Mark,
    jobs: Sequence[Job],
    left: Sequence[Job],
    spent: Sequence[Job],
    settings: Settings,
) -> Report:
    requeued = [job.step_id for job in jobs if job.requeueable and job not in spent]
    ended = [job.step_id for job in jobs if not job.requeueable and job not in spent]
    parts = [f"{mark.text}; {worker.slurm_name} is drained"]
    if requeued:
        parts.append(f"requeued: {', '.join(requeued)}")
    if left:
        parts.append(f"had left by themselves before: {', '.join(job.step_id for job in left)}")
    if ended:
        parts.append(f"told to save and end, they can't be requeued: {', '.join(ended)}")
    if spent:
        parts.append(f"left alone, their repair budget is spent: {', '.join(job.step_id for job in spent)}")
    if settings.opt_out_label and settings.opt_out_label in worker.labels:
        parts.append("its pool has opted out of replacement, so the node stays drained until somebody acts")
        return Report("opted-out", "NodeFaultOptedOut", "; ".join(parts), node.name)
    return Report("fault", "NodeFault", "; ".join(parts), node.name)
