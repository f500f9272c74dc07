"""`python -m training.preflight`: what can be said of a training before it is submitted, in a sentence per question.

It takes the trainer's own options. Run by `srun` on a job's nodes it tries whether they share the run folder; elsewhere
it goes by the kind of file system. What the folder's runs have measured (steps, saves, sizes) is used; a save that was
never made is estimated by writing a part of one. Exit code 1: something would lose work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from training import checkpoints, cost, options, slurm
from training.launch import SETTINGS
from training.options import Options
from training.records import events, steps
from training.shape import parameters
from training.slurm import SlurmError

SHARED = ("nfs", "nfs4", "lustre", "virtiofs", "ceph", "beegfs", "gpfs", "wekafs", "9p")
"""File systems that several machines may mount; whether the job's nodes do is for them to say."""

_KILL_WAIT = 90.0
_MARGIN = 10.0
_SHARE_SECONDS = 30.0
_SAMPLE_BYTES = 256 * 2**20
_BYTES_PER_PARAMETER = 12  # the parameter and two moments, 4 bytes each


@dataclass(frozen=True)
class Verdict:
    """An answer; `well` is None where it can't be known yet."""

    question: str
    well: bool | None
    sentence: str


@dataclass(frozen=True)
class Measured:
    """What is known of a training's times and sizes, in seconds and bytes; None is unknown."""

    step: float | None
    save: float
    size: int
    estimated: bool


def shared_by_type(kind: str, path: Path) -> Verdict:
    """Whether a folder is shared, by the kind of its file system."""
    if kind in SHARED:
        return Verdict("shared", True, f"{path} is on {kind}, which several nodes can mount; srun -N2 would try it.")
    return Verdict(
        "shared",
        False,
        f"{path} is on {kind}, which only this node sees: after a restart elsewhere the job would begin anew. Take a "
        "folder on shared storage, or try with srun on two nodes if you know better.",
    )


def shared_by_trial(path: Path, nodes: int, missing: Sequence[str]) -> Verdict:
    """Whether a folder is shared, by what each task wrote there."""
    if not missing:
        return Verdict("shared", True, f"All {nodes} nodes see each other's files in {path}.")
    return Verdict(
        "shared",
        False,
        f"{missing[0]} sees nothing of this node in {path}, or the other way round: it is not the same folder on all "
        "nodes. Take one on shared storage.",
    )


def space(path: Path, free: int, size: int, keep: int) -> Verdict:
    """Whether the checkpoints fit: those kept, the one being written, and one that is about to be removed."""
    needed = size * (keep + 2)
    text = f"{_size(needed)} for {keep + 2} checkpoints of {_size(size)}, and {path} has {_size(free)} free"
    if needed <= free:
        return Verdict("space", True, f"Space is enough: {text}.")
    return Verdict("space", False, f"Space is short: {text}. Lower --keep or make room.")


def window(measured: Measured, kill_wait: float, shutdown: float) -> Verdict:
    """Whether the step under way and a save fit between SIGTERM and SIGKILL."""
    limit = min(shutdown, kill_wait - _MARGIN)
    needed = measured.save + (measured.step or 0.0)
    how = "estimated" if measured.estimated else "measured"
    text = f"a step and a save take {needed:.1f} s ({how}), and SIGKILL comes {limit:.0f} s after SIGTERM"
    if needed <= limit:
        return Verdict("window", True, f"A save fits the grace period: {text}.")
    return Verdict(
        "window",
        False,
        f"A save does not fit the grace period, so a warned drain loses up to an interval: {text} (KillWait "
        f"{kill_wait:.0f} s, torchrun {shutdown:.0f} s). Raise timing.killWait of the platform and "
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or save faster.",
    )


def loss(chosen: Options, measured: Measured, gpus: int, mtbf: float | None) -> Verdict:
    """What failures cost at this interval."""
    if measured.step is None:
        return Verdict("loss", None, "What a failure costs is not known before some steps have been run.")
    found = cost.cost(gpus, chosen.interval * measured.step, measured.save, mtbf)
    best = max(round(found.best / measured.step), 1)
    return Verdict(
        "loss",
        True,
        f"On {gpus} GPUs a failure is expected every {_duration(found.mtbf)} and costs {_duration(found.each)} "
        f"({chosen.interval // 2} steps on average, and the restart), {_duration(found.daily)} a day; saves take "
        f"{found.saving:.1%} of the time. Best would be --interval {best}.",
    )


def measured(chosen: Options, seconds_per_byte: float | None) -> Measured:
    """What the run folder's records say; where it has no save, one estimated from the model's size."""
    times = [each["time"] for each in steps(chosen.run)]
    gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    saves = [each["seconds"] for each in events(chosen.run) if each["event"] == "save-published"]
    newest = next(iter(checkpoints.whole(chosen.run / "checkpoints")), None)
    size = (
        sum(file.bytes for file in checkpoints.manifest_of(newest).files.values())
        if newest
        else parameters(chosen.width, chosen.layers) * _BYTES_PER_PARAMETER
    )
    step = statistics.median(gaps) if gaps else None
    if saves:
        return Measured(step, max(saves[-5:]), size, estimated=False)
    return Measured(step, size * (seconds_per_byte or 0.0), size, estimated=True)


def file_system(path: Path, mounts: str) -> str:
    """The kind of the file system that a folder lies on, from the text of /proc/self/mountinfo (proc(5))."""
    found, longest = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        place = Path(before.split()[4].replace("\\040", " "))
        if path.is_relative_to(place) and len(place.parts) >= longest:
            found, longest = after.split()[0], len(place.parts)
    return found


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Answer every question; return the exit status."""
    asked, rest = _parser().parse_known_args(arguments)
    chosen = options.read(rest, environ)
    folder = chosen.run.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shared = _shared(folder, environ)
        known = measured(chosen, _speed(folder, chosen))
    except OSError as error:
        print(f"no    The run folder can't be used: {error}. Take one that this user can write to.")
        return 1
    if environ.get("SLURM_PROCID", "0") != "0":
        return 0
    gpus = asked.gpus or int(environ.get("SLURM_JOB_NUM_NODES") or 1) * int(environ.get("SLURM_GPUS_ON_NODE") or 8)
    shutdown = float(environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT") or SETTINGS["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"])
    verdicts = [
        shared,
        space(folder, shutil.disk_usage(folder).free, known.size, chosen.keep),
        window(known, asked.kill_wait or _kill_wait(), shutdown),
        loss(chosen, known, gpus, asked.mtbf_hours * cost.HOURS if asked.mtbf_hours else None),
    ]
    for verdict in verdicts:
        print(f"{_MARKS[verdict.well]:5} {verdict.sentence}")
    return int(any(verdict.well is False for verdict in verdicts))


_MARKS = {True: "yes", False: "no", None: "?"}


def _shared(folder: Path, environ: Mapping[str, str]) -> Verdict:
    nodes = int(environ.get("SLURM_STEP_NUM_NODES") or 1)
    if nodes < 2:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        return shared_by_type(file_system(folder.resolve(), mounts), folder)
    meeting = folder / f".preflight-{environ['SLURM_JOB_ID']}.{environ.get('SLURM_STEP_ID', '')}"
    names = slurm.hostnames(environ["SLURM_STEP_NODELIST"])
    return shared_by_trial(folder, nodes, _meet(meeting, environ["SLURMD_NODENAME"], names, _SHARE_SECONDS))


def _meet(meeting: Path, own: str, names: Iterable[str], seconds: float) -> list[str]:
    """Leave a file of one's own, and wait for everybody's; returns whose are missing in the end."""
    meeting.mkdir(exist_ok=True)
    (meeting / own).touch()
    deadline = time.monotonic() + seconds
    while missing := [name for name in names if not (meeting / name).exists()]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return missing


def _speed(folder: Path, chosen: Options) -> float | None:
    """Seconds that a byte of a save takes here, by writing a part of one; None where saves have been measured."""
    if any(each["event"] == "save-published" for each in events(chosen.run)):
        return None
    size = min(parameters(chosen.width, chosen.layers) * _BYTES_PER_PARAMETER, _SAMPLE_BYTES)
    sample = folder / f".preflight-{os.getpid()}"
    begun = time.monotonic()
    try:
        with sample.open("wb") as file:
            block = os.urandom(2**20)
            for _ in range(0, size, len(block)):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    finally:
        sample.unlink(missing_ok=True)
    return (time.monotonic() - begun) / max(size, 2**20)


def _kill_wait() -> float:
    try:
        text = slurm.ask("scontrol", "show", "config")
    except SlurmError:
        return _KILL_WAIT
    line = next((line for line in text.splitlines() if line.startswith("KillWait")), "")
    digits = "".join(each for each in line.partition("=")[2] if each.isdigit())
    return float(digits or _KILL_WAIT)


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m training.preflight", description="Ask before you submit.", epilog="All options of the trainer."
    )
    made.add_argument("--gpus", type=int, help="of the whole job; default: the job's, else 8")
    made.add_argument("--kill-wait", type=float, help="Slurm's KillWait in seconds; default: as Slurm says, else 90")
    made.add_argument("--mtbf-hours", type=float, help="hours between failures of the job, where you know yours")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
