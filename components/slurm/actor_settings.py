"""Settings of the actor: what happens when a node fails, with the health checks, and who is told of jobs' ends."""

from collections.abc import Iterator
from typing import Literal, get_args

from pydantic import Field

from components.settings import Plain, Settings
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text


class FailureSettings(Settings):
    """What happens when a node fails."""

    actor: bool = Field(
        default=True,
        description="Runs the actor, which requeues the jobs of a failed node. Without it a fault only drains, and "
        "jobs stay on the broken node.",
        examples=[True],
    )
    health_checks: bool = Field(
        default=True,
        description="Runs the health checks on every worker. A `HealthCheckProgram` of your own in `conf.options` "
        "replaces their periodic run.",
        examples=[True],
    )
    repair_budget: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Machines that may fail under one job. From then on the job is thought to be the cause, and no "
        "more are taken away for it.",
        examples=[3],
    )
    opt_out_label: str | None = Field(
        default=None,
        description="Key of the pod label by which AutoClusters leaves a node alone. Crusoe does not publish it, so "
        "there is no default; ask support.",
        examples=["example.com/no-replacement"],
    )


State = Literal[
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
    "REQUEUED",
]


class NotifySettings(Settings):
    """A webhook that is told when a job ends or is requeued, if the job asks with `--mail-type`."""

    webhook_secret: str = Field(
        description="Name of the stack's secret with the URL, set by `pulumi config set --secret <name>`. It gets a "
        "POST of JSON for each.",
        examples=["slurmWebhook"],
        min_length=1,
    )
    states: tuple[State, ...] = Field(
        default=get_args(State),
        description="Ends that are told, in Slurm's words, and `REQUEUED`.",
        examples=[["FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED"]],
        min_length=1,
    )


def findings(slurm: Plain, path: str) -> Iterator[Finding]:
    """Check that there is an actor to notify, and that pools which opt out have a label to do it with."""
    if slurm.get("notify") is not None and table(slurm.get("failure")).get("actor") is False:
        yield Finding(f"{path}.notify", "the actor sends it, and is off", "Take it out, or write failure.actor: true")
    if text(table(slurm.get("failure")).get("optOutLabel")):
        return
    for key, each in table(slurm.get("pools")).items():
        if table(each).get("keepFailedNodes") is True:
            yield Finding(
                f"{path}.pools.{key}.keepFailedNodes",
                "AutoClusters knows it by a pod label, whose key is not published",
                f"Ask Crusoe for it and write {path}.failure.optOutLabel",
            )
