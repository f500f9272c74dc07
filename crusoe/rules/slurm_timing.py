"""How long things may take around the end of a job: the sums that have to come out, or a checkpoint is lost.

A worker that has to go: its pod's preStop drains the node and requeues the jobs (drain budget), Slurm sends SIGTERM
and, KillWait later, SIGKILL; the pod's grace period has to hold all of that. Inside the job, torchrun waits its
shutdown timeout for the ranks, and a rank ends its step, then saves. Each window has to fit into the one around it.
Measured: a 45 s save was lost whole to torchrun's default of 30 s, and again to KillWait's default of 30 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crusoe.rules.finding import Finding
from crusoe.rules.values import table, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

POD_MARGIN = 30
"""Seconds of a pod's grace period beyond drain budget and KillWait: the daemon's own end, and the kubelet's pauses."""

DEFAULTS = {"MessageTimeout": 10, "BatchStartTimeout": 10}
"""Slurm's own, in seconds."""


def timing(path: str, value: object, conf: object = None) -> list[Finding]:
    """Check all windows.

    `value` has killWait, torchrunShutdown, warnedSave, stepTimeout, drainBudget, podGrace, unkillableStepTimeout,
    credExpire (seconds) and allowShortCredExpire; `conf` the options of slurm.conf that people set, by name.
    """
    given = table(value)
    return [*_job(path, given), *_pod(path, given), *_credentials(path, given, table(conf))]


def _job(path: str, given: Mapping[str, object]) -> Iterator[Finding]:
    kill, shutdown = whole(given.get("killWait")), whole(given.get("torchrunShutdown"))
    save, step = whole(given.get("warnedSave")), whole(given.get("stepTimeout"))
    unkillable = whole(given.get("unkillableStepTimeout"))
    if shutdown is not None and kill is not None and shutdown >= kill:
        problem = (
            f"torchrun would wait {shutdown} s for its ranks, but Slurm ends it {kill} s after SIGTERM "
            f"({shutdown} >= killWait {kill})"
        )
        yield Finding(f"{path}.torchrunShutdown", problem, _smaller("killWait", shutdown + 10, kill - 10))
    if save is not None and shutdown is not None and save > shutdown:
        problem = (
            f"a save of {save} s does not end before torchrun ends the ranks after {shutdown} s "
            f"({save} > torchrunShutdown {shutdown})"
        )
        yield Finding(f"{path}.warnedSave", problem, _smaller("torchrunShutdown", save, shutdown))
    if step is not None and save is not None and step >= save:
        problem = (
            f"a rank may still be in its step after {step} s, and nothing of the {save} s is left for the save "
            f"({step} >= warnedSave {save})"
        )
        yield Finding(f"{path}.stepTimeout", problem, _smaller("warnedSave", step * 2, save // 2))
    if unkillable is not None and kill is not None and unkillable <= kill:
        problem = (
            f"nodes would be drained as unkillable after {unkillable} s, while jobs have {kill} s to end "
            f"({unkillable} <= killWait {kill})"
        )
        yield Finding(f"{path}.unkillableStepTimeout", problem, f"Write {2 * kill}, or leave it out")


def _pod(path: str, given: Mapping[str, object]) -> list[Finding]:
    return pod_grace(f"{path}.podGrace", given.get("podGrace"), given.get("drainBudget"), given.get("killWait"))


def pod_grace(path: str, value: object, drain_budget: object, kill_wait: object) -> list[Finding]:
    """Check that a worker's pod lives until its jobs have ended; all in seconds."""
    pod, drain, kill = whole(value), whole(drain_budget), whole(kill_wait)
    if kill is None or drain is None or pod is None:
        return []
    least = drain + kill + POD_MARGIN
    if pod >= least:
        return []
    problem = (
        f"the worker's pod is killed after {pod} s, before its jobs have ended: drainBudget {drain} + killWait "
        f"{kill} + {POD_MARGIN} = {least} s"
    )
    return [Finding(path, problem, f"Write {least}, or leave it out")]


def _credentials(path: str, given: Mapping[str, object], conf: Mapping[str, object]) -> Iterator[Finding]:
    expire = whole(given.get("credExpire"))
    message, start = (whole(conf.get(name, DEFAULTS[name])) for name in DEFAULTS)
    if expire is None or message is None or start is None or given.get("allowShortCredExpire") is True:
        return
    if expire < message + start:
        problem = (
            f"a job's credential would expire after {expire} s, while its start may take MessageTimeout {message} + "
            f"BatchStartTimeout {start} = {message + start} s"
        )
        fix = f"Write {message + start} or more; for development declare it with allowShortCredExpire: true"
        yield Finding(f"{path}.credExpire", problem, fix)


def grace_time(path: str, value: object, kill_wait: object) -> list[Finding]:
    """Check that a preempted job is not promised more than one whose node fails.

    A job that learns to save in a longer GraceTime loses its save the first time that only KillWait is there.
    """
    grace, kill = whole(value), whole(kill_wait)
    if grace is None or kill is None or grace <= kill:
        return []
    problem = (
        f"a preempted job would get {grace} s to save, one on a drained node only {kill} s ({grace} > killWait {kill})"
    )
    return [Finding(path, problem, f"Write {kill}, or raise killWait to {grace}")]


def _smaller(outer: str, raised: int, lowered: int) -> str:
    """Either widen the window around, or narrow this one where there is room for it."""
    return f"Raise {outer} to {raised}" + (f", or write {lowered}" if lowered > 0 else "")
