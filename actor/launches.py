"""Nodes on which jobs do not start, and jobs that Slurm holds because of it.

A failed launch leaves no name behind: the job is back in the queue, one restart more, without its nodes (seen with
Slurm 26.05.5). But it may start again `cred_expire` + 1 s after that moment, and the node was last busy in the same
second; where exactly one node fits, that node is to blame. A node that is blamed twice within ten minutes is drained.

A job that Slurm holds after a failed launch is released, each time later than before, and after some times people are
told instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actor import facts, notes
from actor.actions import Action, Drain, Note, Release, Report
from actor.settings import Settings
from actor.state import Job, Snapshot

WINDOW_SECONDS = 600
FAILURES = 2
BACK_OFF_SECONDS = (15, 60, 240, 600)
"""How long a held job waits before each release. After the last one people decide."""

_HELD = ("launch failed", "launch failure")


@dataclass(frozen=True)
class Failure:
    """A launch that failed on a node."""

    at: int
    node: str
    job: str


@dataclass(frozen=True)
class Memory:
    """What was seen before. A new leader begins with nothing, and at worst needs one more failure.

    Attributes:
        restarts: of each job in the last look, and whether it ran; None before the first look.
        failures: of the last ten minutes.
        held: since when each job is held.
    """

    restarts: Mapping[int, tuple[int, bool]] | None = None
    failures: tuple[Failure, ...] = ()
    held: Mapping[int, int] = field(default_factory=dict[int, int])


def remember(memory: Memory, seen: Snapshot, settings: Settings) -> Memory:
    """The memory after a look."""
    recent = [each for each in memory.failures if seen.now - each.at <= WINDOW_SECONDS]
    return Memory(
        {job.id: (job.restarts, job.running) for job in seen.jobs},
        (*recent, *(_failures(memory, seen, settings))),
        {job.id: memory.held.get(job.id, seen.now) for job in seen.jobs if launch_held(job)},
    )


def launch_held(job: Job) -> bool:
    """Whether Slurm holds a job because it could not be started."""
    return job.pending and job.held and job.description.startswith(_HELD)


def _failures(memory: Memory, seen: Snapshot, settings: Settings) -> Iterator[Failure]:
    if memory.restarts is None:
        return
    for job in seen.jobs:
        before, ran = memory.restarts.get(job.id, (0, False))
        # One that was seen running was started, so its return has other causes; so has one that ended with an error.
        if job.restarts <= before or ran or not job.pending or job.failed:
            continue
        if node := blamed(job, seen, settings.cred_expire):
            yield Failure(seen.now, node, job.step_id)


def blamed(job: Job, seen: Snapshot, cred_expire: int) -> str | None:
    """The node on which a job has just failed to start; None where that is not sure."""
    moment = job.moved_at - cred_expire - 1
    busy = {name for each in seen.jobs if each.running for name in each.nodes}
    fitting = [
        node.name
        for node in seen.slurm.values()
        if abs(node.last_busy - moment) <= 1 and node.name not in busy and job.partition in node.partitions
    ]
    return fitting[0] if len(fitting) == 1 and job.node_count <= 1 else None


def drains(memory: Memory, seen: Snapshot) -> list[list[Action]]:
    """Drain the nodes that were blamed too often."""
    homes = {each.slurm_name: each.node for each in seen.workers}
    lists: list[list[Action]] = []
    for name in sorted({each.node for each in memory.failures} & seen.slurm.keys()):
        failures = [each for each in memory.failures if each.node == name]
        if len(failures) >= FAILURES and not seen.slurm[name].draining:
            reason = f"{len(failures)} launch failures in {WINDOW_SECONDS // 60} min, last job {failures[-1].job}"
            told = Report("launch-failures", "LaunchFailures", f"{name} is drained: {reason}", homes.get(name, ""))
            lists.append([Drain(name, f"{facts.ACTOR_PREFIX}{reason}"), told])
    return lists


def releases(memory: Memory, seen: Snapshot) -> list[list[Action]]:
    """Release held jobs whose time has come."""
    held = [job for job in seen.jobs if launch_held(job)]
    return [list(_release(job, seen.now - memory.held.get(job.id, seen.now))) for job in held]


def _release(job: Job, waited: int) -> Sequence[Action]:
    noted = notes.read(job.comment)
    if noted.releases >= len(BACK_OFF_SECONDS):
        if "held" in noted.told:
            return ()
        text = (
            f"Job {job.step_id} of {job.user} is held ({job.description}) and was released {noted.releases} times. "
            f"Look for the cause, then: scontrol release {job.step_id}"
        )
        told = notes.write(job.comment, replace(noted, told=(*noted.told, "held")))
        return Report("held", "JobHeld", text), Note(job, told)
    if waited < BACK_OFF_SECONDS[noted.releases]:
        return ()
    comment = notes.write(job.comment, replace(noted, releases=noted.releases + 1))
    text = f"Job {job.step_id} was held ({job.description}) and is released, time {noted.releases + 1}"
    return Note(job, comment), Release(job), Report("released", "JobReleased", text, warning=False)
