"""`python -m training.report`: tells Slurm how far the job is, in the job's Comment, until SIGTERM.

The batch script runs it beside the ranks, on the first node, outside of any container. It reads what they write into
the run folder and asks nothing of them: when it fails, or Slurm does not answer, training goes on all the same.

It tells of a new checkpoint and of the first step after a resume, and else once in a minute; a plain user may change
the Comment of a job of theirs, also while it runs (measured with Slurm 26.05.5).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training import options, progress, slurm
from training.progress import Progress
from training.records import STEPS, Records
from training.rendezvous import job_name
from training.slurm import SlurmError

LOOK_SECONDS = 1.0
PAUSE_SECONDS = 5.0
"""The least time between two changes of the Comment."""
LONGEST_SECONDS = 60.0
"""The most, while steps are taken."""

_WRITER = "report"


@dataclass
class Tail:
    """What is appended to a file of JSON lines."""

    path: Path
    _at: int = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """The whole lines since the last call; torn ones and those that are no objects are left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


@dataclass
class Story:
    """What the records of a run say, read one after the other in the order of their files.

    `attempt` is the one that is told of; what earlier ones did is counted.
    """

    attempt: int
    steps: int
    told: Progress = field(default_factory=Progress)
    _last: Mapping[str, Any] | None = None
    _mark: tuple[tuple[int, int], float] = ((-1, -1), 0.0)
    _took: array[float] = field(default_factory=lambda: array("d", [0.0]))
    _useful: float = 0.0
    _saves: tuple[float, ...] = ()

    def event(self, record: Mapping[str, Any]) -> None:
        """An event of rank 0 or of the batch script."""
        match record.get("event"):
            case "fresh" | "resumed":
                self._mark = ((record["attempt"], record["round"]), record["time"])
                if record["event"] == "resumed" and record["attempt"] == self.attempt:
                    self.told = replace(self.told, resumed_at=record["time"], resumed=record["step"])
            case "save-published":
                same = record["attempt"] == self.attempt
                self._saves = (*self._saves[-1:], record["time"]) if same else ()
                every = self._saves[1] - self._saves[0] if len(self._saves) == 2 else 0.0
                self.told = replace(self.told, saved=record["step"], saved_at=record["time"], save_every=every)
            case "requeued":
                # A node that failed or a time limit is no crash of its own, and has no pause.
                self.told = replace(self.told, own=self.told.own + (record["pause"] > 0))
            case _:
                pass

    def step(self, record: Mapping[str, Any]) -> None:
        """A step. From one to the next of the same start counts as the time of the second."""
        start, at, number = (record["attempt"], record["round"]), record["time"], record["step"]
        before = self._last
        if before is not None and number <= before["step"]:
            self.told = replace(self.told, lost=self.told.lost + before["step"] - number + 1)
            self._useful -= sum(self._took[number:])
            del self._took[number:]
        if record["attempt"] == self.attempt and not self.told.first_at:
            stopped = (before["time"], before["step"]) if before is not None else (0.0, 0)
            self.told = replace(self.told, first_at=at, stopped_at=stopped[0], stopped=stopped[1])
        took = at - self._mark[1] if self._mark[0] == start else 0.0
        # By the number of the step; one that a torn line took away has none.
        self._took.extend([0.0] * (number - len(self._took)))
        self._took.append(took)
        self._useful += took
        self._mark, self._last = (start, at), record
        self.told = replace(self.told, step=number)

    def progress(self, allocated: float) -> Progress:
        """What is to be told; `allocated` as in `Progress`."""
        return replace(
            self.told, attempt=self.attempt, steps=self.steps, useful=round(self._useful, 1), allocated=allocated
        )


def allocated(attempts: Sequence[Mapping[str, Any]], now: float) -> float:
    """Seconds in which the job had nodes: of `allocated` events, one for each attempt.

    An event has `start`, and `queued`: when Slurm had put the job into the queue before, the end of the attempt before.
    """
    ends = [*(float(each["queued"]) for each in attempts[1:]), now]
    seconds = sum(max(0.0, end - float(each["start"])) for each, end in zip(attempts, ends, strict=False))
    return round(seconds, 1)


@dataclass(frozen=True)
class Given:
    """What Slurm says of the job when an attempt begins; times in seconds since 1970."""

    comment: str
    start: float
    queued: float


def given(job: str) -> Given:
    """Ask Slurm. Raises SlurmError."""
    said = slurm.ask("env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader", f"--jobs={job}", "--format=%S|%V|%k")
    start, _, rest = said.strip().partition("|")
    queued, _, comment = rest.partition("|")
    try:
        return Given("" if comment == "(null)" else comment, float(start), float(queued))
    except ValueError as error:
        raise SlurmError(f"squeue says {said.strip()!r} of job {job}") from error


def due(before: Progress, now: Progress, waited: float) -> bool:
    """Whether Slurm is to be told, `waited` seconds after it was told `before`."""
    if (before.saved, before.first_at) != (now.saved, now.first_at):
        return waited >= PAUSE_SECONDS or (not before.first_at and bool(now.first_at))
    return before.step != now.step and waited >= LONGEST_SECONDS


def follow(
    run: Path, story: Story, start: Sequence[Mapping[str, Any]], tell: Callable[[Progress], None], end: threading.Event
) -> None:
    """Tell of a run until `end` is set, and once more then; `start` as in `allocated`."""
    events, steps = [Tail(run / name) for name in ("events.job.jsonl", "events.jsonl")], Tail(run / STEPS)
    before, at = Progress(), -LONGEST_SECONDS
    while True:
        last = end.wait(LOOK_SECONDS)
        # Both files are in order, each by itself; what marks the begin of a step is in the events.
        found = sorted(
            (
                *((record, story.event) for tail in events for record in tail.new()),
                *((record, story.step) for record in steps.new()),
            ),
            key=lambda each: each[0].get("time", 0.0),
        )
        for record, take in found:
            take(record)
        now = story.progress(allocated(start, time.time()))
        if last or due(before, now, time.monotonic() - at):
            tell(now)
            before, at = now, time.monotonic()
        if last:
            return


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Tell until SIGTERM."""
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: end.set())
    # Of these the batch script alone is told.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    chosen = options.read(arguments, environ)
    job = job_name(environ)
    try:
        said = given(job)
    except SlurmError as error:
        print(f"Slurm is not told how far the job is: {error}", file=sys.stderr, flush=True)
        return 1
    records = Records(chosen.run, environ, writer=_WRITER)
    records.event("allocated", start=said.start, queued=said.queued)
    attempts = {
        each["attempt"]: each
        for each in Tail(chosen.run / f"events.{_WRITER}.jsonl").new()
        if each.get("event") == "allocated" and each["attempt"] <= records.attempt
    }
    trouble = ""

    def tell(now: Progress) -> None:
        nonlocal trouble
        try:
            slurm.ask("scontrol", "update", f"JobId={job}", f"Comment={progress.write(said.comment, now)}")
        except SlurmError as error:
            if str(error) != trouble:
                print(f"Slurm was not told how far the job is: {error}", file=sys.stderr, flush=True)
            trouble = str(error)

    follow(chosen.run, Story(records.attempt, chosen.steps), [*attempts.values()], tell, end)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
