"""The recoveries of jobs whose nodes failed, found in records that others keep: pure functions.

Slurm keeps with each job what the actor noted of the last fault (`actor/notes.py`) and what the job tells of itself
(`training/progress.py`), and AutoClusters' history has the replacement. So a recovery is found again by whoever looks,
also by an exporter that was started in the middle of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from actor import notes
from actor.state import Job
from exporter.figures import Moment
from exporter.settings import Settings
from exporter.sources import Operation
from training import progress


@dataclass(frozen=True)
class Recovery:
    """What is known of the last recovery of a job.

    Attributes:
        job_id: `12`, or `12_3` for a member of an array; `restart` counts the job's restarts.
        pool: key of the pool whose machine failed.
        moments: seconds since 1970, those that are known.
        steps_lost: steps that were taken again; None where the job does not tell.
    """

    job_id: str
    restart: int
    pool: str
    moments: dict[Moment, float] = field(default_factory=dict[Moment, float])
    steps_lost: int | None = None


def recoveries(jobs: Iterable[Job], operations: Sequence[Operation], settings: Settings) -> list[Recovery]:
    """The last recovery of each job that has one: of the fault that the job was last restarted for."""
    found = (_recovery(job, operations, settings) for job in jobs)
    return [each for each in found if each is not None]


def _recovery(job: Job, operations: Sequence[Operation], settings: Settings) -> Recovery | None:
    fault = notes.read(job.comment).fault
    # A job that was restarted again since then has other times now.
    if fault is None or fault.restart != job.restarts:
        return None
    # Slurm submits a requeued job anew.
    moments: dict[Moment, float] = {
        "isolated": fault.isolated,
        "drained": fault.drained,
        "requeued": job.submitted,
    }
    if fault.told:
        moments["told"] = fault.told
    if (replaced := _replaced(operations, fault)) is not None:
        moments["replaced"] = replaced
    told, lost = progress.read(job.said), None
    # The user may write there what they like: what can't be is left out.
    if told is not None and told.attempt == job.restarts and job.submitted <= told.first_at + 1:
        moments["stepping"] = told.first_at
        if 0 < told.stopped_at <= told.first_at:
            # The job's last step stands for the failure itself, which nobody sees as it happens.
            moments["fault"] = told.stopped_at
        lost = max(0, told.stopped - told.resumed)
    return Recovery(job.step_id, job.restarts, settings.pool_key(fault.pool), moments, lost)


def _replaced(operations: Sequence[Operation], fault: notes.Fault) -> float | None:
    """When the machine had been replaced after a fault; None as long as it is not."""
    times = [
        each.completed
        for each in operations
        if each.vm == fault.host and each.state == "SUCCEEDED" and each.completed >= fault.told
    ]
    return min(times, default=None)
