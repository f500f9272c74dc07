"""The reference job as its user submits it: the program copied home, a folder for each run, `sbatch` at the login."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from drill.losses import Step, parse
from drill.scenarios import INTERVAL, STEPS
from drill.site import Site, SiteError

PROGRAM = Path(__file__).parents[1] / "training"
HOME = "drill"
"""The folder in the user's home."""

FILLER = "filler"
"""The name of small jobs that fill the queue."""

BYSTANDER = "bystander"
"""The name of a job that runs beside it."""

NODES, GPUS = 2, 2
"""Nodes of the job, and GPUs of each."""

PAUSE_SECONDS = 5
"""What the job waits after a crash before it may start again, where nothing is real; it is 30 otherwise."""

STEP_SECONDS = 0.1
"""How long a step takes at least, so that a failure can be placed between two of them."""


def archive() -> bytes:
    """The training program as a tar, the same bytes for the same files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(PROGRAM.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                info = tarfile.TarInfo(f"training/{path.relative_to(PROGRAM)}")
                info.size = path.stat().st_size
                info.mode = 0o644
                tar.addfile(info, io.BytesIO(path.read_bytes()))
    return out.getvalue()


@dataclass(frozen=True)
class Job:
    """Runs of the reference job of one stack's user, in a profile of the trainer: `drill` is exact, and on CPUs."""

    site: Site
    profile: str = "drill"

    def prepare(self) -> str:
        """Have the program in the user's home; returns the digest of program and options. Raises SiteError."""
        site = self.site
        user = site.user
        site.root(f"[ -d ~{user} ] || install -d -o {user} -g {user} ~{user}")
        packed = archive()
        given = base64.b64encode(packed).decode()
        site.person(f"rm -rf {HOME}/program; mkdir -p {HOME}/program; base64 -d | tar -x -C {HOME}/program", given)
        options = repr((STEPS, INTERVAL, NODES, GPUS, STEP_SECONDS, self.profile))
        return hashlib.sha256(packed + options.encode()).hexdigest()[:16]

    def submit(self, name: str, options: Sequence[str] = (), environ: Mapping[str, str] = MappingProxyType({})) -> str:
        """Submit a run into an empty folder `name`; returns the job's number. Raises SiteError."""
        pause = {"TRAINING_PAUSE": str(PAUSE_SECONDS)} if self.profile == "drill" else {}
        variables = "".join(f"export {key}={value}; " for key, value in {**pause, **environ}.items())
        run = f"$HOME/{HOME}/{name}"
        of_sbatch = f"--job-name=drill --nodes={NODES} --gpus-per-node={GPUS} --time=15 --output={run}/log"
        of_job = f"--run={run} --profile={self.profile} --steps={STEPS} --interval={INTERVAL} {' '.join(options)}"
        said = self.site.person(
            f"rm -rf {run}; mkdir -p {run}; cd {HOME}/program && {variables}"
            f"sbatch --parsable {of_sbatch} training/job.sbatch --step-seconds={STEP_SECONDS} {of_job}"
        )
        number = said.strip().partition(";")[0]
        if not number.isdigit():
            raise SiteError(f"sbatch answered no job's number: {said.strip()}")
        return number

    def follow(self, name: str, workers: Sequence[str]) -> list[str]:
        """The command line of a program that shows each line of a run's files as it comes; `workers` may run it."""
        writers = ("", ".job", *(f".rank{rank}" for rank in range(1, NODES * GPUS)))
        writers += tuple(f".launch-{worker}" for worker in workers)
        files = " ".join(f"{HOME}/{name}/{file}.jsonl" for file in ("steps", *(f"events{each}" for each in writers)))
        # A program in a pod outlives the `kubectl exec` that began it, but its standard input ends with that.
        return self.site.as_person(f"tail -q -n +1 -s 0.1 -F {files} 2> /dev/null & cat > /dev/null; kill $!")

    def steps(self, name: str) -> list[Step]:
        """All steps of a run so far; nothing where it has none. Raises SiteError."""
        return parse(self.site.person(f"cat {HOME}/{name}/steps.jsonl 2> /dev/null || true"))

    def log(self, name: str) -> str:
        """The last lines that a run wrote. Raises SiteError."""
        return self.site.person(f"tail -n 40 {HOME}/{name}/log 2> /dev/null || true")

    def look(self, job: str) -> list[str]:
        """The command line of a program that shows what Slurm says of a job and of all nodes, again and again."""
        # Nothing but Slurm's own commands is started: this runs a few times a second.
        script = (
            'export LC_ALL=C; told() { [ ${#rows[@]} = 0 ] || printf "$at $1%s\\n" "${rows[@]}"; }; '
            f"while true; do at=$EPOCHREALTIME; mapfile -t rows < <(scontrol --oneliner show job {job}); told; "
            "mapfile -t rows < <(scontrol --oneliner show nodes); told; "
            f"mapfile -t rows < <(squeue --noheader --name={FILLER},{BYSTANDER} --states=all "
            "--Format=Name:12,JobID:12,State:12,RestartCnt:6); told 'Other '; "
            # A pause, or the end of the standard input, and so of whoever asked.
            "read -r -t 0.2 _; [ $? -gt 128 ] || exit 0; done"
        )
        return self.site.inside("slurm-controller-0", "slurmctld", "bash", "-c", script)
