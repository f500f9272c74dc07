"""The place of a large job: from its node's failure until it starts again, its nodes are kept for it.

Without that the first small jobs of the queue take the freed nodes within a second, then the replacement, and the large
job waits for all of them. So before the requeue a reservation is made over the nodes that it keeps and a free one for
each that it lost; where no node is free, over the lost one's name, under which the replacement comes. The job is set
into the reservation while it still runs, and taken out as soon as it runs again: a reservation can't be ended before
(seen with Slurm 26.05.5), and jobs that already run on these nodes go on (IGNORE_JOBS).
"""

from collections.abc import Collection, Iterator

from actor import facts, launches
from actor.actions import Action, Enter, Rearrange, Reserve, Unreserve
from actor.state import Job, SlurmNode, Snapshot

MINUTES = 240
"""Longest life of a reservation. Should the actor not be there to end it, the nodes are free again after this."""


def name_of(job: Job) -> str:
    """The name of a job's reservation."""
    return f"{facts.RESERVATION}{job.id}"


def keep(seen: Snapshot, job: Job, broken: Collection[str]) -> Reserve | None:
    """The reservation for a job that is about to be requeued. None for jobs of one node, which find another as soon as
    anybody does, and for jobs in a reservation of their own."""
    if len(job.nodes) < 2 or job.reservation not in ("", name_of(job)):
        return None
    lost = [name for name in job.nodes if name in broken]
    kept = [name for name in job.nodes if name not in broken]
    return Reserve(job, name_of(job), (*kept, *_replacements(seen, job, lost)))


def _replacements(seen: Snapshot, job: Job, lost: Collection[str]) -> Iterator[str]:
    """For each lost node a free one that can do the same, else the lost one itself, whose name is used again."""
    taken = {name for each in seen.reservations.values() for name in each.nodes}
    for name in lost:
        one = seen.slurm.get(name)
        spares = [] if one is None else [each for each in seen.slurm.values() if _can_replace(each, one, job)]
        free = [each for each in spares if each.name not in taken and each.name not in job.nodes]
        best = min(free, key=lambda each: (one is None or each.topology != one.topology, each.name), default=None)
        found = best.name if best else name
        taken.add(found)
        yield found


def _can_replace(spare: SlurmNode, lost: SlurmNode, job: Job) -> bool:
    return (
        spare.free
        and job.partition in spare.partitions
        and spare.gres == lost.gres
        # What the lost node had was enough for the job, whatever it asked for.
        and lost.features <= spare.features
    )


def follow(seen: Snapshot, busy: Collection[int]) -> list[Action]:
    """What to do about reservations that there are; `busy` are jobs whose failure is answered in this very look."""
    jobs = {job.id: job for job in seen.jobs}
    actions: list[Action] = []
    for name, reservation in seen.reservations.items():
        number = name.removeprefix(facts.RESERVATION)
        if not name.startswith(facts.RESERVATION) or not number.isdecimal() or int(number) in busy:
            continue
        job = jobs.get(int(number))
        if job is None or job.over:
            actions.append(Unreserve(name))
        elif job.running or (job.pending and job.held and not launches.launch_held(job)):
            # It has its nodes; or a person holds it, and nodes do not wait for that.
            actions += [*([Enter(job, "")] if job.reservation == name else []), Unreserve(name)]
        elif job.pending:
            if job.reservation != name:
                actions.append(Enter(job, name))
            actions += _rearranged(seen, job, name, reservation.nodes)
    return actions


def _rearranged(seen: Snapshot, job: Job, name: str, nodes: Collection[str]) -> Iterator[Rearrange]:
    """While a reserved node is unusable and another one is free, the free one takes its place."""
    lost = [each for each in nodes if (node := seen.slurm.get(each)) is None or node.draining or not node.reachable]
    kept = [each for each in nodes if each not in lost]
    model = next((seen.slurm[each] for each in (*lost, *kept) if each in seen.slurm), None)
    if not lost or model is None:
        return
    taken = {each for other in seen.reservations.values() for each in other.nodes}
    free = sorted(
        each.name for each in seen.slurm.values() if each.name not in taken and _can_replace(each, model, job)
    )
    if free:
        yield Rearrange(name, (*kept, *free[: len(lost)], *lost[len(free) :]))
