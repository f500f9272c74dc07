"""Jobs that left a node before anybody knew that it is broken.

A rank that loses its GPU crashes at once, and the job's script puts the job back into the queue; the fault is seen
seconds or minutes later. It is that job's fault all the same: it is noted with the job, counts for the job's repair
budget, and while the job still waits it keeps its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from actor import notes
from actor.state import Job, Snapshot

SECONDS = 600
"""How long before its fault was seen a node may have been left because of it. Detection takes minutes at most."""


@dataclass(frozen=True)
class Departure:
    """A job that went back into the queue by itself; `restarts` is its count since then, `nodes` those that it left."""

    at: int
    job: int
    restarts: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """What was seen before. A new leader begins with nothing, and misses those that left while nobody led.

    Attributes:
        ran: of each job, the restarts that it had when it was last seen running, and its nodes then.
        departures: of the last minutes, as long as the job was not started anew since.
    """

    ran: Mapping[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict[int, tuple[int, tuple[str, ...]]])
    departures: tuple[Departure, ...] = ()


def remember(memory: Memory, seen: Snapshot) -> Memory:
    """The memory after a look."""
    counts = {job.id: job.restarts for job in seen.jobs if not job.over}
    recent = [each for each in memory.departures if seen.now - each.at <= SECONDS]
    departures = [each for each in (*recent, *_departed(memory, seen)) if counts.get(each.job) == each.restarts]
    return Memory(dict(_ran(memory, seen)), tuple(departures))


def _ran(memory: Memory, seen: Snapshot) -> Iterator[tuple[int, tuple[int, tuple[str, ...]]]]:
    for job in seen.jobs:
        restarts, nodes = memory.ran.get(job.id, (-1, ()))
        if job.running:
            yield job.id, (job.restarts, job.nodes)
        elif restarts == job.restarts:
            # It ends, or is about to go back into the queue.
            yield job.id, (restarts, nodes)


def _departed(memory: Memory, seen: Snapshot) -> Iterator[Departure]:
    for job in seen.jobs:
        restarts, nodes = memory.ran.get(job.id, (job.restarts, ()))
        if job.restarts == restarts + 1 and not _answered(job):
            yield Departure(seen.now, job.id, job.restarts, nodes)


def _answered(job: Job) -> bool:
    """Whether it was the actor that put the job back into the queue, or whether its departure is noted already."""
    fault = notes.read(job.comment).fault
    return fault is not None and fault.restart == job.restarts


def of(name: str, departures: Sequence[Departure], jobs: Sequence[Job]) -> Iterator[tuple[Job, Departure]]:
    """The jobs that have left a node of Slurm, and whose fault was not noted yet."""
    left = {each.job: each for each in departures if name in each.nodes}
    for job in jobs:
        if job.id in left and not _answered(job):
            yield job, left[job.id]
