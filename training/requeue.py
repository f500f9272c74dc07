"""`python -m training.requeue`: what becomes of a job whose ranks have ended; the last thing the batch script runs.

A job that Slurm itself ends (a drain, preemption, scancel: SIGTERM) is left to Slurm. One that crashed goes back into
the queue with a pause, away from the nodes to blame, until three crashes in a row have brought no newer checkpoint.
Nodes that failed don't count: Slurm's restart count has them too, and by it a large job would be given up for faults of
its cluster.

A running job's ExcNodeList can't be changed, so the job is requeued first. The SIGTERM that this brings is ignored, and
what KillWait leaves is enough for the change.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from training import blame, checkpoints, codes, options, slurm
from training.blame import Suspicion
from training.records import Records, events
from training.rendezvous import job_name
from training.slurm import SlurmError

CRASHES = 3
"""So many crashes in a row without a newer checkpoint, and the job is given up."""

LONGEST_PAUSE = 600.0
_MEMORY = "requeue.json"
_UPDATE_SECONDS = 60.0
"""How long Slurm may refuse to change the requeued job; below KillWait."""
_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class Memory:
    """What is kept between attempts: the newest checkpoint's step at the last crash, and crashes since it is that."""

    newest: int = -1
    crashes: int = 0
    suspicions: tuple[Suspicion, ...] = ()


@dataclass(frozen=True)
class Ending:
    """How an attempt ended.

    `status` is srun's, `told` what the batch script was told, `newest` the newest whole checkpoint's step (-1: none),
    `refused` whether the trainer found that its options don't fit, `node_failed` whether Slurm has taken out a node of
    the job.
    """

    status: int
    told: Literal["none", "term", "limit"]
    newest: int
    refused: bool = False
    node_failed: bool = False


@dataclass(frozen=True)
class Decision:
    """What becomes of the job: its exit code, or back into the queue after `pause` seconds."""

    code: int
    requeue: bool
    pause: float
    memory: Memory
    sentence: str


def decide(ending: Ending, memory: Memory, pause: float) -> Decision:
    """What becomes of a job; `pause` is that after a first crash, and doubles."""
    rested = replace(memory, newest=max(ending.newest, memory.newest), crashes=0)
    if ending.status == codes.DONE:
        return Decision(codes.DONE, False, 0, rested, "All steps are done.")
    if ending.told == "term":
        return Decision(ending.status, False, 0, memory, "Slurm ended this attempt; it also says what comes next.")
    if ending.refused:
        return Decision(codes.REFUSED, False, 0, memory, "The trainer refused its options; another try would too.")
    if ending.told == "limit":
        return Decision(codes.STOPPED, True, 0, rested, "The time limit is near: the job goes on in its next turn.")
    if ending.node_failed:
        return Decision(codes.STOPPED, True, 0, memory, "A node of the job has failed, which doesn't count as a crash.")
    crashes = 1 if ending.newest > memory.newest else memory.crashes + 1
    after = Memory(ending.newest, crashes, memory.suspicions)
    if crashes >= CRASHES:
        sentence = f"Given up: {crashes} crashes without a newer checkpoint than step {max(ending.newest, 0)}."
        return Decision(codes.GAVE_UP, False, 0, replace(after, crashes=0), sentence)
    wait = min(pause * 2 ** (crashes - 1), LONGEST_PAUSE)
    sentence = f"Crash {crashes} of {CRASHES} since step {max(ending.newest, 0)}: again in {wait:.0f} s."
    return Decision(codes.STOPPED, True, wait, after, sentence)


def read_memory(folder: Path) -> Memory:
    """What the last attempt kept; nothing where it kept nothing."""
    try:
        raw = json.loads((folder / _MEMORY).read_text(encoding="utf-8"))
        return Memory(raw["newest"], raw["crashes"], tuple(Suspicion(**each) for each in raw["suspicions"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Memory()


def write_memory(folder: Path, memory: Memory) -> None:
    """Keep it, whole. Raises OSError."""
    draft = folder / f".{_MEMORY}"
    draft.write_text(json.dumps(asdict(memory)), encoding="utf-8")
    draft.replace(folder / _MEMORY)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Decide, and do it; return the batch script's exit status."""
    # Requeueing sends SIGTERM to the batch script and to this.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    asked = _parser().parse_args(arguments[:at])
    chosen = options.read(arguments[at + 1 :], environ)
    records = Records(chosen.run, environ, writer="job")
    attempt = int(environ.get("SLURM_RESTART_COUNT") or 0)
    happened = [event for event in events(chosen.run) if event["attempt"] == attempt]
    memory = read_memory(chosen.run)
    failed = _failed_nodes(environ) if asked.status != codes.DONE and asked.told == "none" else []
    ending = Ending(
        status=asked.status,
        told=asked.told,
        newest=checkpoints.newest_step(chosen.run / "checkpoints"),
        refused=any(event["event"] == "leaving" and event["code"] == codes.REFUSED for event in happened),
        node_failed=bool(failed),
    )
    decision = decide(ending, memory, asked.pause)
    print(decision.sentence, flush=True)
    records.event("ended", status=asked.status, told=asked.told, code=decision.code, why=decision.sentence)
    if not decision.requeue:
        if decision.memory != memory:
            write_memory(chosen.run, decision.memory)
        return decision.code
    found = blame.suspects(happened, attempt, int(environ.get("SLURM_JOB_NUM_NODES") or 1))
    try:
        _requeue(environ, decision, [] if failed or asked.told != "none" else found, chosen.run, records)
    except SlurmError as error:
        print(f"The job could not be put back into the queue: {error}", file=sys.stderr)
        return 1
    return decision.code


def _requeue(environ: Mapping[str, str], decision: Decision, found: Sequence[str], run: Path, records: Records) -> None:
    job = job_name(environ)
    partition, needed = environ.get("SLURM_JOB_PARTITION", ""), int(environ.get("SLURM_JOB_NUM_NODES") or 1)
    every = slurm.nodes()
    before = decision.memory.suspicions
    instances = {node.name: node.instance for node in every if node.instance}
    lasting = blame.kept(before, found, instances, time.time())
    current = slurm.excluded(job)
    own = blame.users_own(current, before)
    usable = {node.name for node in every if not node.failed and partition in node.partitions} - own
    staying_away = blame.affordable(lasting, usable, needed)
    for each in lasting:
        if each not in staying_away:
            print(f"{each.node} is suspected, but without it too few nodes are left.", flush=True)
    wanted = sorted(own | {each.node for each in staying_away})
    write_memory(run, replace(decision.memory, suspicions=tuple(staying_away)))
    records.event("requeued", pause=decision.pause, blamed=list(found), excluded=wanted)
    slurm.ask("scontrol", "requeue", job)
    changes = [f"StartTime=now+{decision.pause:.0f}"]
    if set(wanted) != set(current):
        changes.insert(0, f"ExcNodeList={','.join(wanted)}")
    _update(job, changes)


def _update(job: str, changes: Sequence[str]) -> None:
    """Change a job that was just requeued, as soon as Slurm lets it be changed. Raises SlurmError."""
    deadline = time.monotonic() + _UPDATE_SECONDS
    while True:
        try:
            slurm.ask("scontrol", "update", f"JobId={job}", *changes)
        except SlurmError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _failed_nodes(environ: Mapping[str, str]) -> list[str]:
    """Nodes of the job that Slurm has taken out; none where it doesn't answer."""
    try:
        names = slurm.hostnames(environ.get("SLURM_JOB_NODELIST", ""))
        return [node.name for node in slurm.nodes(names) if node.failed]
    except SlurmError as error:
        print(f"Slurm does not say how the job's nodes are: {error}", file=sys.stderr)
        return []


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m training.requeue", description="What becomes of a job that ended.")
    made.add_argument("--status", type=int, required=True, help="of srun")
    made.add_argument("--told", choices=("none", "term", "limit"), required=True, help="what the batch script was told")
    made.add_argument(
        "--pause",
        type=float,
        default=float(os.environ.get("TRAINING_PAUSE") or 30.0),
        help="seconds after a first crash; doubled with each, up to ten minutes",
    )
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
