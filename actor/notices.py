"""Which ends and requeues of jobs are to be told, each once. A pure rule; `notify` delivers.

A job asks with `--mail-type`: END (every end), FAIL (every end but COMPLETED and CANCELLED), REQUEUE, or ALL. Each
member of a job array is told by itself. What happened before the very first look is not told. Requeues that come
between two looks are told as one.

Slurm lists a job for MinJobAge after its end (300 s), so nothing is missed while no actor looks for less than that.
What was told of a job is kept as long as Slurm lists it: the number of its requeues, with `+` for its end.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from actor.state import Job

REQUEUED = "REQUEUED"
MOST = 500
"""Notices that wait at most; they have to fit into a ConfigMap, which holds 1 MiB."""

_MOST_TEXT = 200
_NO_FAILURE = frozenset({"COMPLETED", "CANCELLED"})
_BEGINS_ANEW = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})


@dataclass(frozen=True)
class Notice:
    """What is sent, as one JSON object.

    Attributes:
        job: `12`, or `12_3` for a member of an array.
        state: Slurm's state of an ended job, or REQUEUED.
        exit: exit code, or 128 and the number of the signal that ended it; 0 for a requeue.
        restarts: how often it was requeued so far.
        nodes: as Slurm writes them (`train-[0-1]`); empty for a requeued job that waits.
        start: seconds since 1970, as `end`; 0 where there is none. The end of a requeue is its moment.
    """

    job: str
    name: str
    user: str
    state: str
    exit: int
    restarts: int
    nodes: str
    start: int
    end: int
    reason: str
    cluster: str


@dataclass(frozen=True)
class Book:
    """What has to outlive the actor.

    Attributes:
        since: when notices began, seconds since 1970.
        told: by number of a job, what was put into `waiting` before.
        waiting: notices that are not delivered yet, oldest first.
    """

    since: int
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    waiting: tuple[Notice, ...] = ()


def write(book: Book) -> str:
    """The book as text."""
    return json.dumps(asdict(book), separators=(",", ":"))


def read(text: str) -> Book:
    """The book of a text.

    Raises:
        ValueError: it is none that `write` wrote.
    """
    try:
        found = cast("dict[str, Any]", json.loads(text))
        waiting = tuple(Notice(**each) for each in found["waiting"])
        return Book(int(found["since"]), dict(found["told"]), waiting)
    except (KeyError, TypeError) as error:
        raise ValueError("not a book of notices") from error


def enter(book: Book, jobs: Iterable[Job], states: Sequence[str], cluster: str) -> Book:
    """The book with what is new about the jobs that Slurm lists; `states` are those that are told."""
    told: dict[str, str] = {}
    new: list[Notice] = []
    for job in jobs:
        if not job.mail:
            continue
        restarts, ended = _known(book, job)
        if job.restarts > restarts:
            ended = False
            if _wants(job, REQUEUED) and REQUEUED in states:
                new.append(_notice(job, REQUEUED, cluster))
        over = _over(job)
        if over and not ended and job.ended >= book.since:
            state = _state(job)
            if _wants(job, state) and state in states:
                new.append(_notice(job, state, cluster))
        if job.restarts or over:
            told[str(job.id)] = f"{job.restarts}{'+' if over else ''}"
    new.sort(key=lambda each: each.end)
    return replace(book, told=told, waiting=(*book.waiting, *new))


def _known(book: Book, job: Job) -> tuple[int, bool]:
    """How many requeues of a job were told, and whether its end after the last of them was."""
    text = book.told.get(str(job.id))
    if text is not None:
        return int(text.rstrip("+")), text.endswith("+")
    # Slurm submits a requeued job anew: this is the moment of the last requeue.
    return (0 if job.submitted >= book.since else job.restarts), False


def _over(job: Job) -> bool:
    """Whether it has ended with all that belongs to it: until then the exit code may change, or it may start anew."""
    return job.over and "COMPLETING" not in job.states and not job.states & _BEGINS_ANEW


def _state(job: Job) -> str:
    return next((each for each in ENDS if each in job.states), "FAILED")


def _wants(job: Job, state: str) -> bool:
    if state == REQUEUED:
        return "REQUEUE" in job.mail
    return "END" in job.mail or ("FAIL" in job.mail and state not in _NO_FAILURE)


def _notice(job: Job, state: str, cluster: str) -> Notice:
    again = state == REQUEUED
    return Notice(
        job=job.step_id,
        name=job.name[:_MOST_TEXT],
        user=job.user,
        state=state,
        exit=0 if again else job.exit,
        restarts=job.restarts,
        nodes="" if again else job.node_list[:_MOST_TEXT],
        start=0 if again else job.started,
        end=job.submitted if again else job.ended,
        reason=job.reason[:_MOST_TEXT],
        cluster=cluster,
    )


ENDS = (
    "COMPLETED",
    "FAILED",
    "TIMEOUT",
    "CANCELLED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "DEADLINE",
    "BOOT_FAIL",
    "LAUNCH_FAILED",
)
"""Slurm's states of a job that has ended (26.05)."""
STATES = (*ENDS, REQUEUED)
"""All that can be told."""
