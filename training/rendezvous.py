"""Where the processes of a job meet: functions of Slurm's environment.

The port and the id hold the job and its restart count: at its old place a restarted job could be joined by what is left
of its last attempt. Members of a job array are apart, since each has a job id of its own (`SLURM_JOB_ID`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PORTS = range(20000, 30000)
"""Below the ports that Linux gives out by itself (32768 and up), above those of services."""

_PER_JOB = 16


class NotInSlurmError(Exception):
    """A variable of Slurm is missing; `str()` says which."""


@dataclass(frozen=True)
class Meeting:
    """Where and as what a node's launcher meets the others; `host` keeps the meeting's store."""

    id: str
    host: str
    port: int
    nodes: int
    is_host: bool
    address: str


def meeting(environ: Mapping[str, str]) -> Meeting:
    """The meeting of this job's attempt, as seen from a task that srun started.

    Raises:
        NotInSlurmError: this is no task of a job.
    """
    job = int(_needed(environ, "SLURM_JOB_ID"))
    restart = int(environ.get("SLURM_RESTART_COUNT") or 0)
    return Meeting(
        id=f"{job_name(environ)}.{restart}",
        host=first_host(environ.get("SLURM_STEP_NODELIST") or _needed(environ, "SLURM_JOB_NODELIST")),
        port=PORTS[(job * _PER_JOB + restart) % len(PORTS)],
        nodes=int(environ.get("SLURM_STEP_NUM_NODES") or _needed(environ, "SLURM_JOB_NUM_NODES")),
        is_host=_needed(environ, "SLURM_NODEID") == "0",
        address=_needed(environ, "SLURMD_NODENAME"),
    )


def job_name(environ: Mapping[str, str]) -> str:
    """The job as scontrol is told it: `<array>_<task>` for a member of an array, else its id.

    The id of an array's last member is that of the whole array, and `scontrol requeue` of it would stop all others.

    Raises:
        NotInSlurmError: this is no job.
    """
    if "SLURM_ARRAY_JOB_ID" in environ:
        return f"{environ['SLURM_ARRAY_JOB_ID']}_{_needed(environ, 'SLURM_ARRAY_TASK_ID')}"
    return _needed(environ, "SLURM_JOB_ID")


def first_host(hosts: str) -> str:
    """The first name of a list as Slurm writes it: `gpu-[02-03,7],login` gives `gpu-02`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", hosts)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first[0]) if first else ""


def processes(environ: Mapping[str, str]) -> int:
    """Processes of this node: one for each GPU of the job here, one where it has none."""
    return int(environ.get("SLURM_GPUS_ON_NODE") or 1)


def _needed(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise NotInSlurmError(f"{name} is not set: this is meant to be started by srun in a job (see job.sbatch)")
    return environ[name]
